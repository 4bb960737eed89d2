//! Acting as somebody else: `Impersonate-User` and the other headers, and who may use them.

use std::collections::BTreeMap;

use concert_api::Status;
use http::HeaderMap;

use super::{AUTHENTICATED, User, service_account};
use crate::Server;
use crate::access::{Action, Named, On};

const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODE: &str = "system:node:";
const GROUP: &str = "authentication.k8s.io";

/// Whom a request wants to be, as its headers say it; `None`: nobody else.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.insert(unescaped(key), texts(name.as_str()));
        }
    }
    let user = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: texts("impersonate-group"),
        extra,
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", described(&user))))
}

/// Header names are case-insensitive and cannot have every character: keys are percent-encoded.
fn unescaped(key: &str) -> String {
    form_urlencoded::parse(key.replace('+', "%2B").replace('&', "%26").replace('=', "%3D").as_bytes())
        .next()
        .map_or_else(|| key.to_owned(), |(key, _)| key.into_owned())
}

/// As Go's `%#v` shows it.
fn described(user: &User) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs: Vec<String> = user.extra.iter().map(|(key, texts)| format!("{key:?}:{}", list(texts))).collect();
        format!("map[string][]string{{{}}}", pairs.join(", "))
    };
    format!("&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}", user.name, user.uid)
}

impl Server {
    /// The user that `user` wants to be, if they may.
    pub(crate) fn impersonate(&self, user: &User, wanted: &User, action: &Action) -> Result<User, Status> {
        let mode = mode(&wanted.name);
        let constrained = Action { verb: format!("impersonate-on:{mode}:{}", action.verb), on: action.on.clone() };
        let by_mode = format!("impersonate:{mode}");
        let all = |verb: &str, group: Option<&str>| {
            parts(wanted, group).into_iter().try_for_each(|part| self.require(user, &Action::on(verb, part)))
        };
        let in_mode = self.require(user, &constrained).and_then(|()| all(&by_mode, Some(GROUP)));
        if let Err(refusal) = in_mode
            && let Err(plain) = all("impersonate", None)
        {
            // What the real server says first of a request that it knows the resource of.
            return Err(if matches!(action.on, On::Resource(_)) { refusal } else { plain });
        }
        Ok(completed(wanted))
    }
}

/// The sort of user, which has verbs of its own.
fn mode(name: &str) -> &'static str {
    if service_account::split(name).is_some() {
        "serviceaccount"
    } else if name.starts_with(NODE) {
        "arbitrary-node"
    } else {
        "user-info"
    }
}

/// What must be permitted for each part of the identity.
fn parts(wanted: &User, group: Option<&str>) -> Vec<Named> {
    let named = |own: &str, resource: &str, name: &str| Named {
        group: group.unwrap_or(own).to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Named::default()
    };
    let mut parts = vec![match service_account::split(&wanted.name) {
        Some((namespace, name)) => Named { namespace: namespace.to_owned(), ..named("", "serviceaccounts", name) },
        None => named("", "users", &wanted.name),
    }];
    parts.extend(wanted.groups.iter().map(|name| named("", "groups", name)));
    for (key, values) in &wanted.extra {
        let of_key = |value: &String| Named { subresource: key.clone(), ..named(GROUP, "userextras", value) };
        parts.extend(values.iter().map(of_key));
    }
    if !wanted.uid.is_empty() {
        parts.push(named(GROUP, "uids", &wanted.uid));
    }
    parts
}

/// With the groups that come by themselves.
fn completed(wanted: &User) -> User {
    let mut user = wanted.clone();
    if user.groups.is_empty()
        && let Some((namespace, name)) = service_account::split(&user.name)
    {
        user.groups = service_account::account(namespace, name).groups;
    }
    if user.name == ANONYMOUS {
        if !user.is_in(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
        return user;
    }
    if user.is_in(AUTHENTICATED) || user.is_in(UNAUTHENTICATED) { user } else { user.authenticated() }
}
