//! Getting and listing.

pub(crate) mod encoded;
pub(crate) mod options;
pub(crate) mod pieces;
mod token;

use std::sync::Arc;

use bytes::Bytes;
use concert_api::{ObjectKey, Status};
use concert_store::{RevisionError, Snapshot};
use serde_json::{Value, json};

use crate::Server;
use crate::beside::{Parsed, Stored};
use crate::components;
use crate::delete::DeleteOptions;
use crate::encode;
use crate::respond::{Count, Form};
use crate::scale;
use crate::select::Selection;
use crate::table;
use crate::target::{Part, Query, Target};

/// How long a list waits for a revision that is not there yet.
const FUTURE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// The objects of a list and where it ends.
pub(crate) struct Page {
    /// When they were so; 0 for what is not stored.
    revision: u64,
    entries: Vec<Arc<Stored>>,
    continue_token: String,
    remaining: Option<usize>,
}

impl Server {
    /// GET of one object.
    pub(crate) async fn get(&self, target: &Target, query: &Query, form: Form) -> Result<Bytes, Status> {
        let name = target.name.as_deref().unwrap_or_default();
        if let Some(all) = components::all(&target.resource) {
            let found = all.iter().find(|(key, _)| &*key.name == name);
            let (_, entry) = found.ok_or_else(|| components::not_found(name))?;
            table::check_count(target, form, Count::One)?;
            return self.shaped(target, query, form, entry);
        }
        if let Some(asked) = revision("resourceVersion", &query.resource_version)? {
            self.wait_for(asked).await?;
        }
        let snapshot = self.store().snapshot();
        let Some(entry) = snapshot.get(&target.named_key()?) else {
            return Err(Status::not_found(&target.resource.id, name));
        };
        if target.part == Part::Scale {
            let object = encode::tree(&target.resource, target.version(), entry)?;
            return scale::shaped(target, query, form, &scale::of(target, &object)?, self.now());
        }
        table::check_count(target, form, Count::One)?;
        self.shaped(target, query, form, entry)
    }

    /// DELETE of a collection: what a list gives, each object with the same options. Gives what was found.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        query: &Query,
        options: &DeleteOptions,
    ) -> Result<Page, Status> {
        let page = self.page(target, query).await?;
        for entry in &page.entries {
            let Some(object) = &entry.beside.object else { continue };
            match self.delete(&target.at(&object.key()), options).await {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(page)
    }

    /// One object in the form the client wants.
    pub(crate) fn shaped(&self, target: &Target, query: &Query, form: Form, entry: &Stored) -> Result<Bytes, Status> {
        match form {
            Form::Object | Form::AggregatedDiscovery(_) => {
                Ok(encode::served(&target.resource, target.version(), entry))
            }
            Form::Table(version) => {
                let object = encode::tree(&target.resource, target.version(), entry)?;
                let metadata = metadata_at(entry.revision);
                let table = table::table(target, query, version, &object, &metadata, self.now())?;
                Ok(table.to_string().into())
            }
            Form::Metadata(version, _) => Ok(table::metadata_bytes(&target.resource, target.version(), version, entry)),
        }
    }

    /// Finds the objects of a list at one revision.
    pub(crate) async fn page(&self, target: &Target, query: &Query) -> Result<Page, Status> {
        let selection = Selection::of(target, query)?;
        if let Some(mut all) = components::all(&target.resource) {
            all.retain(|(key, entry)| selection.matches(key, entry));
            let entries = all.into_iter().map(|(_, entry)| entry).collect();
            return Ok(Page { revision: 0, entries, continue_token: String::new(), remaining: None });
        }
        let (snapshot, after) = self.listed_state(target, query).await?;
        let namespace = selection.namespace.as_deref();
        let limit = if query.limit == 0 || query.resource_version == "0" { usize::MAX } else { query.limit };
        let mut entries = Vec::new();
        let mut objects = snapshot.range(&target.resource.stored_as, namespace, after.as_ref());
        let mut last = None;
        while entries.len() < limit {
            let Some((key, entry)) = objects.next() else { break };
            if selection.matches(key, entry) {
                entries.push(Arc::clone(entry));
                last = Some(key.clone());
            }
        }
        let rest = if entries.len() == limit && !selection.is_single() { objects.count() } else { 0 };
        let revision = snapshot.revision();
        let continue_token = match last {
            Some(last) if rest > 0 => token::write(target, Some(revision), &last),
            _ => String::new(),
        };
        let remaining = (rest > 0 && !selection.is_narrowed()).then_some(rest);
        Ok(Page { revision, entries, continue_token, remaining })
    }

    /// The state that a list reads, and the key after which it goes on.
    async fn listed_state(
        &self,
        target: &Target,
        query: &Query,
    ) -> Result<(Snapshot<Parsed>, Option<ObjectKey>), Status> {
        options::check_list(query)?;
        if !query.continue_token.is_empty() {
            let (revision, start) = token::read(target, &query.continue_token)?;
            if !matches!(query.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            let Some(revision) = revision else { return Ok((self.store().snapshot(), Some(start))) };
            let snapshot = self.store().snapshot_at(revision).map_err(|error| match error {
                RevisionError::Compacted { .. } => {
                    let mut status = Status::expired(EXPIRED_TOKEN);
                    status.continue_token = token::write(target, None, &start);
                    status
                }
                RevisionError::Future { asked, current } => Status::too_large_revision(asked, current),
            })?;
            return Ok((snapshot, Some(start)));
        }
        let asked = revision("resourceVersion", &query.resource_version)
            .map_err(|status| Status::bad_request(format!("invalid resource version: {}", status.message)))?;
        let exact = query.version_match == "Exact" || (query.version_match.is_empty() && query.limit > 0);
        if let Some(asked) = asked.filter(|asked| *asked > 0) {
            self.wait_for(asked).await?;
            if exact {
                let too_old = |_| Status::expired("The resourceVersion for the provided list is too old.");
                return Ok((self.store().snapshot_at(asked).map_err(too_old)?, None));
            }
        }
        Ok((self.store().snapshot(), None))
    }

    /// Waits a while for a revision that is not written yet.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<(), Status> {
        let mut revisions = self.store().revisions();
        let arrived = tokio::time::timeout(FUTURE_PATIENCE, revisions.wait_for(|current| *current >= revision)).await;
        match arrived {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Status::too_large_revision(revision, self.store().snapshot().revision())),
        }
    }
}

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Page {
    fn metadata(&self) -> Value {
        let mut metadata = metadata_at(self.revision);
        if !self.continue_token.is_empty() {
            metadata["continue"] = self.continue_token.clone().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }

    /// Lists of custom resources always have a token, if an empty one.
    fn metadata_for(&self, target: &Target) -> Value {
        let mut metadata = self.metadata();
        if target.resource.is_custom() && self.continue_token.is_empty() {
            metadata["continue"] = "".into();
        }
        metadata
    }
}

/// The metadata of a list or table; what is not stored has no revision.
fn metadata_at(revision: u64) -> Value {
    if revision == 0 { json!({}) } else { json!({"resourceVersion": revision.to_string()}) }
}

/// Reads a resourceVersion; `None` if empty.
pub(crate) fn revision(field: &str, text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Status::failure(500, "", format!("{field}: Invalid value: {text:?}: {why}"))
    })
}
