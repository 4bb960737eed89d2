//! An object that is ready but for its revision.

use bytes::Bytes;
use concert_api::Object;

/// JSON bytes of an object without `metadata.resourceVersion`, and where it goes: the revision is only known when the
/// write is accepted, and no second encoding is paid for it.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    at: usize,
}

impl Draft {
    /// A draft of `bytes`, with the resourceVersion to be put at byte `at`, where a member of `metadata` begins.
    #[must_use]
    pub fn new(bytes: Vec<u8>, at: usize) -> Self {
        debug_assert_eq!(bytes.get(at), Some(&b'"'), "a member begins here");
        Self { bytes, at }
    }

    /// The bytes without revision.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The final bytes.
    pub(crate) fn finish(self, revision: u64) -> Bytes {
        let member = format!("\"resourceVersion\":\"{revision}\",");
        let mut bytes = Vec::with_capacity(self.bytes.len() + member.len());
        bytes.extend_from_slice(&self.bytes[..self.at]);
        bytes.extend_from_slice(member.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.at..]);
        let bytes = Bytes::from(bytes);
        debug_assert_eq!(Object::parse(bytes.clone()).map(|object| object.revision()), Ok(Some(revision)));
        bytes
    }
}
