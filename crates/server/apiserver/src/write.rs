//! Creating, replacing and patching: one pipeline for every kind, in the order of the real server.
//!
//! decode → prune → default → books (who owns which field) → path agreement → server-owned metadata → mutating hooks →
//! strategy (generation, status) → rules and schema → validating hooks → compare-and-swap. A patch is read, changed and
//! written again until nobody came between.

mod content;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use concert_api::{FieldErrors, Gvk, Status, Time, meta};
use concert_merge::{Live, ManagedFields};
use concert_schema::{Counted, keep_notes};
use concert_store::{Expect, Key, Op, Write, WriteError};
use serde_json::Value;

use content::{default_scaled, is_the_same, keep_namespace_finalizers, merged, prune_merged};

use crate::Server;
use crate::admission::{Operation, Review};
use crate::advice::advice;
use crate::beside::Stored;
use crate::body::Media;
use crate::books::{self, Booked, Made};
use crate::change::{Change, check_revision, check_uid};
use crate::encode;
use crate::generation;
use crate::incoming::{self, Incoming};
use crate::kept::Kept;
use crate::kinds::{self, Resource};
use crate::owners::{self, Stage};
use crate::parts::{self, certificate};
use crate::rules;
use crate::scale;
use crate::services::{SERVICES, Unable};
use crate::target::{Part, Query, Target};

/// Tries for a name that `generateName` made.
const NAME_TRIES: usize = 8;
/// Tries for a write that nobody asked to be conditional.
const WRITE_TRIES: usize = 100;

/// What a write is answered with.
pub(crate) struct Written {
    pub(crate) code: u16,
    pub(crate) object: Bytes,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    /// POST.
    pub(crate) async fn create(
        &self,
        target: &Target,
        query: &Query,
        media: Media,
        body: &[u8],
    ) -> Result<Written, Status> {
        let read = || {
            let Incoming { mut value, mut warnings, is_hollow } =
                incoming::read(target, media, body, query.field_validation)?;
            rules::wipe(&mut value);
            warnings.extend(owners::deduplicate(&mut value, Stage::Sent));
            let managed = books::created(target, query, &mut value, self.now());
            Ok(Booked { value, managed, warnings, made: Made::Read, is_hollow })
        };
        self.create_booked(target, query, read()?, read).await
    }

    /// Creates an object that was read and booked. Seldom it has to be read `again`, because another name has to be
    /// tried or something came between; it is not kept twice for that.
    async fn create_booked(
        &self,
        target: &Target,
        query: &Query,
        read: Booked,
        again: impl Fn() -> Result<Booked, Status> + Sync,
    ) -> Result<Written, Status> {
        let generated = meta::text(&read.value, "name").is_empty();
        let mut read = Some(read);
        for attempt in 1.. {
            let mut new = read.take().map_or_else(&again, Ok)?;
            rules::prepare_new(target, &mut new.value, self.now(), &self.world().random)?;
            let guards = self.check_parents(target, &new.value)?;
            let name = meta::text(&new.value, "name").to_owned();
            let review = Review::of(Operation::Create, target, &name, None, query.dry_run);
            self.name_class(target, &mut new.value, true)?;
            self.mutate_booked(target, &review, &mut new).await?;
            new.warnings.extend(owners::deduplicate(&mut new.value, Stage::Admitted));
            // After the hooks: nobody gives by a hook what they do not have.
            self.check_escalation(target, query, &new.value, None)?;
            let addresses = self.hold_addresses(target).await;
            self.prepare_created(target, query, &mut new).map_err(|status| status.warning(&new.warnings))?;
            let Booked { value: mut object, managed, mut warnings, made, .. } = new;
            let mut before = prune_merged(target, &mut object, made);
            warnings.extend(advice(target, &object, None));
            let apart = self.keeps_books_apart(target) && !query.dry_run;
            if !apart {
                before.iter_mut().chain([&mut object]).for_each(|object| managed.write_to(object));
            }
            let (told, _addresses) = self.consult_holding(target, &review, &object, addresses).await?;
            warnings.extend(told);
            let key = target.key(&name);
            if query.dry_run {
                if self.store().snapshot().get(&key).is_none() {
                    let sent = meta::text(&object, "resourceVersion").to_owned();
                    let object = encode::tried(&target.resource, target.version(), object, &sent);
                    return Ok(Written { code: 201, object, warnings });
                }
                self.check_taken(target, &name, generated, attempt).map_err(|status| status.warning(&warnings))?;
                continue;
            }
            rules::check_unversioned(&object).map_err(|status| status.warning(&warnings))?;
            if !self.has_free_addresses(target, &object) && attempt < WRITE_TRIES {
                continue;
            }
            let books = apart.then_some(&managed);
            let op = Op::Put(encode::draft_with(&target.resource, target.version(), &object, books));
            match self.write(Write { key: key.clone(), expect: Expect::Absent, guards, op }).await {
                Ok(entry) => {
                    let kept = Kept::of(&target.resource, target.version(), &object, before.as_ref());
                    entry.beside.keep(managed, kept);
                    let object = encode::served(&target.resource, target.version(), &entry);
                    return Ok(Written { code: 201, object, warnings });
                }
                // What it depends on has changed meanwhile: look again.
                Err(WriteError::Conflict { key: at_fault, .. }) if at_fault != key && attempt < WRITE_TRIES => {}
                Err(WriteError::Conflict { .. }) => {
                    self.check_taken(target, &name, generated, attempt).map_err(|status| status.warning(&warnings))?;
                }
                Err(error) => return Err(refused(&error)),
            }
        }
        Err(Status::internal("no name was free"))
    }

    /// Refuses a name that is taken, unless it was made here and another can be tried.
    fn check_taken(&self, target: &Target, name: &str, generated: bool, attempt: usize) -> Result<(), Status> {
        if generated && attempt < NAME_TRIES {
            return Ok(());
        }
        let snapshot = self.store().snapshot();
        let deleting = snapshot.get(&target.key(name)).is_some_and(|entry| entry.beside.is_deleting());
        Err(name_taken(target, name, generated, deleting))
    }

    /// The strategy and the rules for a new object.
    fn prepare_created(&self, target: &Target, query: &Query, new: &mut Booked) -> Result<(), Status> {
        let version = target.version();
        let object = &mut new.value;
        if certificate::is_request(target) {
            certificate::sign(object, query.caller.as_deref());
        }
        if version.builtin.is_none_or(|builtin| builtin.counted != Counted::Never) {
            meta::of(object).insert("generation".into(), 1.into());
        }
        if version.status
            && !version.builtin.is_some_and(|builtin| builtin.keeps_status)
            && let Some(members) = object.as_object_mut()
        {
            members.remove("status");
        }
        if let Some(builtin) = version.builtin {
            builtin.prepare(object, None);
        }
        self.give(target, query, object, None)?;
        let mut errors = rules::check(target, object);
        errors.extend(books::check(&new.managed));
        match version.builtin {
            Some(builtin) => errors.extend(builtin.check(object, None)),
            None => {
                errors.extend(version.schema.validate(object));
                // Nothing is forgiven in a new object, so nothing is warned about.
                let _ = version.schema.check_rules(object, None, &mut errors);
            }
        }
        errors.extend(scale::check(target, object));
        refuse_invalid(target, object, &errors)?;
        self.check_default_priority(target, object, true)?;
        if target.resource.id == kinds::definitions() {
            self.establish(object, None, &mut new.managed);
        }
        Ok(())
    }

    /// PUT and PATCH, of an object or its status.
    pub(crate) async fn update(&self, target: &Target, query: &Query, change: &Change) -> Result<Written, Status> {
        let name = target.name.clone().unwrap_or_default();
        let key = target.named_key()?;
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(&key) else {
                let not_found = || Status::not_found(&target.resource.id, &name);
                let made = || change.created(target, query, self.now())?.ok_or_else(not_found);
                let new = made()?;
                self.require_create(target, query)?;
                match self.create_booked(target, query, new, made).await {
                    // Somebody was faster: it is there to be changed.
                    Err(status) if status.reason == "AlreadyExists" && !query.dry_run => continue,
                    created => return created,
                }
            };
            let old = encode::apart(&target.resource, target.version(), entry)?;
            let update = self.prepare_updated(target, query, change, entry, &old).await?;
            let served = |entry: &Stored| encode::served(&target.resource, target.version(), entry);
            let written = |object| Written { code: 200, object, warnings: update.warnings.clone() };
            let kept = Kept::of(&target.resource, target.version(), &update.object, update.before.as_ref());
            let new = (&update.object, kept);
            if Kept::is_the_same(&target.resource, target.version(), entry, new, update.unchanged) {
                return Ok(written(served(entry)));
            }
            let finished = || encode::finished(target.version(), &update.object, &entry.revision.to_string());
            if query.dry_run {
                let (object, revision) = (update.object.clone(), entry.revision.to_string());
                return Ok(written(encode::tried(&target.resource, target.version(), object, &revision)));
            }
            if !self.has_free_addresses(target, &update.object) {
                continue;
            }
            let last = meta::is_deleting(&update.object) && is_released(&target.resource, &update.object);
            let op = if last {
                // Watchers of a removal see the last state that was stored; the client sees what it sent.
                let before = encode::tree(&target.resource, target.version(), entry)?;
                Op::Delete(encode::draft(&target.resource, target.version(), &before))
            } else {
                let books = update.apart.then_some(&update.managed);
                Op::Put(encode::draft_with(&target.resource, target.version(), &update.object, books))
            };
            let write = Write { key: key.clone(), expect: Expect::Revision(entry.revision), guards: Vec::new(), op };
            match self.write(write).await {
                Ok(_) if last => {
                    self.after_removal(&key).await;
                    return Ok(written(finished()));
                }
                Ok(entry) => {
                    entry.beside.keep(update.managed, kept);
                    return Ok(written(served(&entry)));
                }
                // An apply, or a PUT that creates, may do so now; whatever else finds nothing says so.
                Err(WriteError::Conflict { .. }) if update.conditional => break,
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Err(Status::conflict(&target.resource.id, &name))
    }

    /// The strategy and the rules for a changed object.
    async fn prepare_updated(
        &self,
        target: &Target,
        query: &Query,
        change: &Change,
        entry: &Stored,
        old: &Value,
    ) -> Result<Update<'_>, Status> {
        let managed = entry.beside.managed();
        let live = Live { object: old, managed: &managed };
        let mut sent = change.wanted(target, query, live, self.now())?;
        let name = target.name.as_deref().unwrap_or_default();
        let shown = self.shown_to_hooks(old, live.managed);
        let review = Review::of(Operation::Update, target, name, Some(&shown), query.dry_run);
        self.name_class(target, &mut sent.value, false)?;
        self.mutate_booked(target, &review, &mut sent).await?;
        sent.warnings.extend(owners::deduplicate(&mut sent.value, Stage::Admitted));
        if is_the_same(&sent.value, old) {
            // A write that changes nothing has no time.
            sent.managed.keep_times(live.managed);
        }
        let Booked { value: sent, mut managed, mut warnings, made, is_hollow } = sent;
        let conditional = rules::check_name(target, &sent)
            .and_then(|()| self.check_escalation(target, query, &sent, Some(old)))
            .and_then(|()| check_uid(target, &sent, old, change))
            .and_then(|()| check_revision(target, &sent, entry, change))
            // What is remarkable is told of what is refused as well.
            .map_err(|status| status.warning(&warnings))?;
        let addresses = self.hold_addresses(target).await;
        let said = rules::own(&sent);
        let mut object = self.merged(target, sent, old);
        rules::keep_from_old(&mut object, old);
        meta::set_text(&mut object, "resourceVersion", entry.revision.to_string());
        if let Some(builtin) = target.version().builtin {
            builtin.prepare(&mut object, Some(old));
        }
        keep_namespace_finalizers(target, &mut object, old);
        self.give(target, query, &mut object, Some(old)).map_err(|status| status.warning(&warnings))?;
        generation::bump(target, &mut object, old, is_hollow);
        let mut errors = rules::check_update(target, &object, old, &said);
        errors.extend(rules::check(target, &object));
        errors.extend(books::check(&managed));
        warnings.extend(check_content(target, &object, old, &mut errors));
        refuse_invalid(target, &object, &errors)
            .and_then(|()| self.check_growth(target, &object, old))
            .and_then(|()| self.check_default_priority(target, &object, false))
            .map_err(|status| status.warning(&warnings))?;
        warnings.extend(advice(target, &object, Some(old)));
        if target.resource.id == kinds::definitions() && target.part != Part::Status {
            self.establish(&mut object, Some(old), &mut managed);
        }
        let pruned = prune_merged(target, &mut object, made);
        let mut before = pruned.or_else(|| default_scaled(target, &mut object));
        let unchanged = object == *old && managed == *live.managed;
        let apart = self.keeps_books_apart(target) && !query.dry_run && !meta::is_deleting(&object);
        if !apart {
            before.iter_mut().chain([&mut object]).for_each(|object| managed.write_to(object));
        }
        self.check_signer(target, query, &object, old).map_err(|status| status.warning(&warnings))?;
        let (told, addresses) = self.consult_holding(target, &review, &object, addresses).await?;
        warnings.extend(told);
        Ok(Update { object, managed, apart, before, unchanged, warnings, conditional, _addresses: addresses })
    }

    /// Whether nobody looks at the books of what is written to its place before they are stored: no hook, and not who
    /// compares custom resources with what is stored of them.
    fn keeps_books_apart(&self, target: &Target) -> bool {
        self.hooks().0.is_empty() && !target.resource.is_custom()
    }

    /// What was sent, as far as it can be changed there, on top of what was stored.
    fn merged(&self, target: &Target, sent: Value, old: &Value) -> Value {
        match target.part {
            Part::EphemeralContainers | Part::Resize | Part::Approval => {
                parts::merged(target.part, &sent, old, self.now())
            }
            _ => {
                let mut object = merged(target, sent, old);
                if certificate::is_request(target) {
                    certificate::keep(target.part, &mut object, old, self.now());
                }
                if target.resource.kind == "HorizontalPodAutoscaler" && !target.resource.is_custom() {
                    keep_notes(&mut object, old, target.part == Part::Status);
                }
                object
            }
        }
    }

    /// Gives a service its addresses: what cannot be had is told before what is wrong. One that comes through its status
    /// gets none.
    fn give(&self, target: &Target, query: &Query, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if target.resource.id != *SERVICES || target.part != Part::Whole {
            return Ok(());
        }
        self.allocate(object, old, query.dry_run).or_else(|unable| match unable {
            Unable::Invalid(errors) => refuse_invalid(target, object, &errors),
            Unable::Failed(status) => Err(status),
        })
    }

    /// Nobody else gives services their addresses meanwhile.
    async fn hold_addresses(&self, target: &Target) -> Option<Held<'_>> {
        if target.resource.id == *SERVICES { Some(self.addresses().lock().await) } else { None }
    }

    /// Asks the hooks whether they object. They may write services themselves, so nothing is held meanwhile; who goes on
    /// asks whether the addresses are still free.
    async fn consult_holding<'a>(
        &'a self,
        target: &Target,
        review: &Review<'_>,
        object: &Value,
        held: Option<Held<'a>>,
    ) -> Result<(Vec<String>, Option<Held<'a>>), Status> {
        if self.hooks().0.is_empty() {
            return Ok((Vec::new(), held));
        }
        drop(held);
        let warnings = self.consult(review, object).await?;
        Ok((warnings, self.hold_addresses(target).await))
    }

    /// Whether nobody got the addresses of a service while hooks were asked.
    fn has_free_addresses(&self, target: &Target, object: &Value) -> bool {
        self.hooks().0.is_empty()
            || target.resource.id != *SERVICES
            || target.part != Part::Whole
            || self.are_free(object)
    }

    /// New content needs a namespace (and a custom resource a definition) that is there and stays. Gives what must
    /// still be so when the write is decided: nothing may slip in behind a deletion.
    fn check_parents(&self, target: &Target, object: &Value) -> Result<Vec<(Key, u64)>, Status> {
        let name = meta::text(object, "name");
        let snapshot = self.store().snapshot();
        let mut guards = Vec::new();
        if target.resource.is_custom() {
            let definition = concert_api::ObjectKey::cluster(target.resource.id.to_string());
            let key = Key { resource: kinds::definitions(), object: definition };
            guards.extend(snapshot.get(&key).map(|entry| (key.clone(), entry.revision)));
        }
        if target.resource.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&target.resource.id, name, why));
        }
        let Some(namespace) = &target.namespace else { return Ok(guards) };
        let key = Key { resource: kinds::namespaces(), object: concert_api::ObjectKey::cluster(namespace.as_str()) };
        let Some(entry) = snapshot.get(&key) else {
            return Err(Status::not_found(&kinds::namespaces(), namespace));
        };
        if entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut status = Status::forbidden(&target.resource.id, name, &why);
            if let Some(details) = &mut status.details {
                let message = format!("namespace {namespace} is being terminated");
                details.causes.push(concert_api::Cause {
                    reason: "NamespaceTerminating".into(),
                    message,
                    field: "metadata.namespace".into(),
                });
            }
            return Err(status);
        }
        guards.push((key, entry.revision));
        Ok(guards)
    }

    /// Writes, and renews what is made from what was written: kinds from definitions, roles from roles.
    pub(crate) async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        let resource = write.key.resource.clone();
        let written = self.store().write(write).await;
        if resource == kinds::definitions() {
            self.refresh_kinds();
        }
        self.after_role_write(&resource);
        written
    }

    pub(crate) fn now(&self) -> Time {
        // Timestamps of the API have whole seconds.
        Time::from_unix_seconds(Time::from(self.world().clock.now()).unix_seconds())
    }
}

/// What is wrong with a changed object beyond its metadata; gives what is only warned of.
fn check_content(target: &Target, object: &Value, old: &Value, errors: &mut FieldErrors) -> Vec<String> {
    let version = target.version();
    let warnings = match version.builtin {
        Some(builtin) => {
            let own = parts::check(target.part, object, old);
            errors.extend(own.unwrap_or_else(|| builtin.check(object, Some(old))));
            Vec::new()
        }
        None => {
            errors.extend(if target.part == Part::Status {
                version.schema.validate_status(object, old)
            } else {
                version.schema.validate_update(object, old)
            });
            version.schema.check_rules(object, Some(old), errors)
        }
    };
    errors.extend(scale::check(target, object));
    if certificate::is_request(target) {
        errors.extend(certificate::check(target.part, object, old));
    }
    warnings
}

/// 409: the name, or every name that was tried, is taken by what may be on its way out.
fn name_taken(target: &Target, name: &str, generated: bool, deleting: bool) -> Status {
    let mut status = Status::already_exists(&target.resource.id, name);
    if generated {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut status.details {
            details.retry_after_seconds = 1;
        }
    }
    if deleting {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// As long as it lives, nobody else gives services their addresses.
type Held<'a> = tokio::sync::MutexGuard<'a, ()>;

struct Update<'a> {
    object: Value,
    managed: ManagedFields,
    /// The object is without its books.
    apart: bool,
    /// It before something was taken from it or filled in that the real server leaves to readers.
    before: Option<Value>,
    /// There is nothing to write that readers would see.
    unchanged: bool,
    warnings: Vec<String>,
    /// The client named the version it has seen.
    conditional: bool,
    /// Nobody else gives services their addresses until this is written.
    _addresses: Option<Held<'a>>,
}

fn refuse_invalid(target: &Target, object: &Value, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let gvk = Gvk { group: target.group_of_errors().to_owned(), ..target.version().gvk.clone() };
    let name = meta::text(object, "name");
    // What two rules say is told once, but of definitions and what they define.
    if target.resource.is_custom() || target.resource.id == kinds::definitions() {
        return Err(Status::invalid(&gvk, name, errors));
    }
    let mut told = BTreeSet::new();
    let errors: FieldErrors = errors.iter().filter(|error| told.insert(error.to_string())).cloned().collect();
    Err(Status::invalid(&gvk, name, &errors))
}

/// Nothing holds a deleting object any longer.
pub(crate) fn is_released(resource: &Resource, object: &Value) -> bool {
    let spec_finalizers = object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let lingers = object["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds > 0);
    meta::finalizers(object).is_empty() && !lingers && !(resource.id == kinds::namespaces() && spec_finalizers)
}

/// A write that the store did not take.
pub(crate) fn refused(error: &WriteError) -> Status {
    match error {
        WriteError::OverQuota { .. } => Status::failure(507, "InsufficientStorage", error.to_string()),
        WriteError::TooLarge { .. } => Status::failure(413, "RequestEntityTooLarge", error.to_string()),
        WriteError::Unknown { .. } => Status::failure(504, "Timeout", error.to_string()),
        WriteError::Conflict { .. } | WriteError::Failed(_) | WriteError::Closed => Status::internal(error),
    }
}
