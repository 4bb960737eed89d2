//! The standard rich details of a gRPC error.

use std::time::Duration;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::rpc;

/// The reason of an error after which not even the provider knows whether the operation took effect.
pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";

const DOMAIN: &str = "concert.dev";
const TYPE_PREFIX: &str = "type.googleapis.com/google.rpc.";

/// A field that an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldViolation {
    /// Its path in the object: `spec.forProvider.path`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// What a gRPC status says beyond its code and message. Peers that do not know it lose nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// A short constant that programs can compare (`ErrorInfo.reason`).
    pub reason: Option<String>,
    /// When to call again (`RetryInfo`).
    pub retry_after: Option<Duration>,
    /// The fields at fault (`BadRequest`).
    pub fields: Vec<FieldViolation>,
}

impl Details {
    /// A status that carries these details.
    #[must_use]
    pub fn into_status(self, code: Code, message: impl Into<String>) -> Status {
        let message = message.into();
        let details = self.encode();
        let status = rpc::Status { code: code.into(), message: message.clone(), details };
        Status::with_details(code, message, status.encode_to_vec().into())
    }

    /// The details that came with `status`; what is absent or cannot be read is empty.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let decoded = rpc::Status::decode(status.details()).unwrap_or_default();
        let mut details = Self::default();
        for any in &decoded.details {
            details.add(any);
        }
        details
    }

    fn encode(self) -> Vec<Any> {
        let reason = self.reason.map(|reason| {
            let info = rpc::ErrorInfo { reason, domain: DOMAIN.to_owned(), ..Default::default() };
            pack("ErrorInfo", &info)
        });
        let retry = self.retry_after.map(|after| {
            let retry_delay = prost_types::Duration::try_from(after).ok();
            pack("RetryInfo", &rpc::RetryInfo { retry_delay })
        });
        let fields = (!self.fields.is_empty()).then(|| {
            let violation =
                |f: FieldViolation| rpc::bad_request::FieldViolation { field: f.field, description: f.description };
            let field_violations = self.fields.into_iter().map(violation).collect();
            pack("BadRequest", &rpc::BadRequest { field_violations })
        });
        [reason, retry, fields].into_iter().flatten().collect()
    }

    fn add(&mut self, any: &Any) {
        match any.type_url.strip_prefix(TYPE_PREFIX) {
            Some("ErrorInfo") => {
                self.reason = rpc::ErrorInfo::decode(&*any.value).ok().map(|info| info.reason);
            }
            Some("RetryInfo") => {
                let delay = rpc::RetryInfo::decode(&*any.value).ok().and_then(|info| info.retry_delay);
                self.retry_after = delay.and_then(|delay| Duration::try_from(delay).ok());
            }
            Some("BadRequest") => {
                let request = rpc::BadRequest::decode(&*any.value).unwrap_or_default();
                let violation =
                    |f: rpc::bad_request::FieldViolation| FieldViolation { field: f.field, description: f.description };
                self.fields.extend(request.field_violations.into_iter().map(violation));
            }
            _ => {}
        }
    }
}

fn pack(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("{TYPE_PREFIX}{name}"), value: message.encode_to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_survive_the_trailer() {
        let details = Details {
            reason: Some("INVALID".into()),
            retry_after: Some(Duration::from_millis(1500)),
            fields: vec![FieldViolation { field: "spec.x".into(), description: "too long".into() }],
        };
        let status = details.clone().into_status(Code::InvalidArgument, "bad");
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "bad"));
        let headers = Status::from_header_map(&{
            let mut map = tonic::metadata::MetadataMap::new().into_headers();
            status.add_header(&mut map).unwrap();
            map
        })
        .unwrap();
        assert_eq!(Details::of(&headers), details);
    }

    #[test]
    fn garbage_is_no_detail() {
        let status = Status::with_details(Code::Internal, "x", vec![0xff, 0xff, 0x01].into());
        assert_eq!(Details::of(&status), Details::default());
        assert_eq!(Details::of(&Status::internal("x")), Details::default());
    }
}
