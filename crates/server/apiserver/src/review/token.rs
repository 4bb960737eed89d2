//! Tokens of service accounts, on request.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use concert_api::{FieldError, GroupResource, Gvk, ObjectKey, Status, Time, meta};
use concert_schema::part_kind;
use concert_store::Key;
use serde_json::{Value, json};

use super::texts;
use crate::Server;
use crate::access::Identity;
use crate::auth::service_account::{Claims, ISSUER, Signer};
use crate::body::Media;
use crate::books;
use crate::incoming::{self, Incoming};
use crate::kinds::Resource;
use crate::target::{Query, Target};
use crate::write::Written;

/// How long a token is good for unless it is said.
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// The kind of such requests, which are of no resource.
static RESOURCE: LazyLock<Arc<Resource>> = LazyLock::new(|| {
    let kind = part_kind(&Gvk::new("authentication.k8s.io", "v1", "TokenRequest"));
    Arc::new(Resource::from_builtin(kind.as_slice()).expect("service accounts have tokens"))
});

impl Server {
    /// POST to the `token` of a service account.
    pub(crate) fn request_token(
        &self,
        account: &ObjectKey,
        query: &Query,
        media: Media,
        body: &[u8],
    ) -> Result<Written, Status> {
        let target = Target::stored(&RESOURCE, account);
        let Incoming { mut value, warnings, .. } = incoming::read(&target, media, body, query.field_validation)?;
        let managed = books::created(&target, query, &mut value, self.now());
        let uid = self.account_uid(account)?;
        let spec = checked(&value, account)?;
        let issued = self.now().unix_seconds();
        let claims = Claims {
            namespace: account.namespace.to_string(),
            name: account.name.to_string(),
            uid: uid.clone(),
            id: self.world().random.uuid(),
            audiences: spec.audiences.clone(),
            issued,
            expires: issued.saturating_add(spec.seconds),
        };
        let identity = self.signing_identity().map_err(Status::internal)?;
        let signer = identity.signer.as_ref().ok_or_else(|| Status::internal("there is no key to sign with"))?;
        let token = signer.sign(&claims).map_err(Status::internal)?;
        let mut object = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": account.name.as_ref(), "namespace": account.namespace.as_ref(), "uid": uid,
                "creationTimestamp": self.now(),
            },
            "spec": {"audiences": spec.audiences, "expirationSeconds": spec.seconds, "boundObjectRef": null},
            "status": {"token": token, "expirationTimestamp": Time::from_unix_seconds(claims.expires)},
        });
        managed.write_to(&mut object);
        Ok(Written { code: 201, object: Bytes::from(object.to_string()), warnings })
    }

    fn account_uid(&self, account: &ObjectKey) -> Result<String, Status> {
        let resource = GroupResource::new("", "serviceaccounts");
        let key = Key { resource: resource.clone(), object: account.clone() };
        let snapshot = self.store().snapshot();
        let entry = snapshot.get(&key).ok_or_else(|| Status::not_found(&resource, &account.name))?;
        let object: Value = serde_json::from_slice(&entry.bytes).map_err(Status::internal)?;
        Ok(meta::text(&object, "uid").to_owned())
    }

    /// Whom we know, with a key to sign: one that is kept nowhere, if nobody gave us one.
    fn signing_identity(&self) -> Result<Arc<Identity>, String> {
        let identity = self.access().identity();
        if identity.signer.is_some() {
            return Ok(identity);
        }
        let made = Arc::new(Identity {
            administrator: identity.administrator.clone(),
            tokens: identity.tokens.clone(),
            clients: identity.clients.clone(),
            signer: Some(Signer::ephemeral()?),
        });
        self.know(Arc::clone(&made));
        Ok(made)
    }
}

struct Spec {
    audiences: Vec<String>,
    seconds: i64,
}

fn checked(value: &Value, account: &ObjectKey) -> Result<Spec, Status> {
    let gvk = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
    for (field, own) in [("name", &account.name), ("namespace", &account.namespace)] {
        let said = meta::text(value, field);
        if !said.is_empty() && *said != **own {
            let detail = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(format!("metadata.{field}"), said, detail);
            return Err(Status::invalid(&gvk, &account.name, &[error]));
        }
    }
    let spec = &value["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let detail = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => "",
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    if !detail.is_empty() {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
        return Err(Status::invalid(&gvk, "", &[error]));
    }
    if spec["boundObjectRef"].is_object() {
        let name = spec["boundObjectRef"]["name"].as_str().unwrap_or_default();
        return Err(match spec["boundObjectRef"]["kind"].as_str() {
            Some("Pod") => Status::not_found(&GroupResource::new("", "pods"), name),
            _ => Status::bad_request("this server does not bind tokens to objects; leave spec.boundObjectRef out"),
        });
    }
    let audiences = texts(&spec["audiences"]);
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    Ok(Spec { audiences, seconds })
}
