//! What a request wants to do, read from its method and path alone: before the kinds are asked, before the body.

use http::{Method, Uri};

use crate::target::{Route, is_true, plain, route};

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) verb: String,
    pub(crate) on: On,
}

/// What it is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// A path that is no resource.
    Path(String),
    /// A resource, a part of it, or one object.
    Resource(Named),
}

/// A resource as rules name it. What is empty is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Named {
    /// `pods/status`, as in rules.
    pub(crate) fn full(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            part => format!("{}/{part}", self.resource),
        }
    }
}

impl Action {
    /// An action on a resource.
    pub(crate) fn on(verb: impl Into<String>, named: Named) -> Self {
        Self { verb: verb.into(), on: On::Resource(named) }
    }

    /// What a request wants.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let plain = plain(uri.path()).unwrap_or_default();
        let path = match route(&plain) {
            Some(Route::Resource(path)) => path,
            // Each of these has its policy here: rules of `nonResourceURLs`.
            Some(
                Route::Discovery(_)
                | Route::OpenApi(_)
                | Route::OpenApiV2
                | Route::Version
                | Route::Health(_)
                | Route::Index
                | Route::Backup,
            )
            | None => {
                let on = On::Path(plain.into_owned());
                return Self { verb: method.as_str().to_ascii_lowercase(), on };
            }
        };
        let options = Options::read(uri.query().unwrap_or_default());
        let name = path.name.unwrap_or_default().to_owned();
        let one = !name.is_empty();
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            _ if path.watched => "watch",
            _ if one => "get",
            _ if options.watch => "watch",
            _ => "list",
        };
        let name = if one || !matches!(verb, "list" | "watch") { name } else { options.name };
        // A namespace is in itself.
        let is_namespace = path.group.is_empty() && path.resource == "namespaces";
        let namespace = if is_namespace { name.clone() } else { path.namespace.unwrap_or_default().to_owned() };
        let named = Named {
            group: path.group.to_owned(),
            resource: path.resource.to_owned(),
            subresource: path.subresource.unwrap_or_default().to_owned(),
            namespace,
            name,
        };
        Self::on(verb, named)
    }
}

/// What of the query decides about permissions.
#[derive(Default)]
struct Options {
    watch: bool,
    /// The name, if the field selector asks for one.
    name: String,
}

impl Options {
    /// Of an option that is there twice the first one counts, as where the query is carried out.
    fn read(query: &str) -> Self {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if seen.contains(&key) {
                continue;
            }
            seen.push(key.clone());
            match &*key {
                "watch" => options.watch = is_true(&value),
                "fieldSelector" => {
                    let exact = concert_api::FieldSelector::parse(&value).ok();
                    let name = exact.and_then(|selector| selector.required("metadata.name").map(str::to_owned));
                    options.name = name.unwrap_or_default();
                }
                _ => {}
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &str, uri: &str) -> String {
        let action = Action::of(&method.parse().unwrap(), &uri.parse().unwrap());
        match action.on {
            On::Path(path) => format!("{} {path}", action.verb),
            On::Resource(on) => {
                format!("{} {:?} {} in {:?} named {:?}", action.verb, on.group, on.full(), on.namespace, on.name)
            }
        }
    }

    #[test]
    fn requests_mean_what_they_mean_to_the_real_server() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/namespaces", r#"list "" namespaces in "" named """#),
            ("GET", "/api/v1/namespaces/a", r#"get "" namespaces in "a" named "a""#),
            ("PUT", "/api/v1/namespaces/a/finalize", r#"update "" namespaces/finalize in "a" named "a""#),
            ("GET", "/api/v1/namespaces/a/configmaps", r#"list "" configmaps in "a" named """#),
            ("HEAD", "/api/v1/namespaces/a/configmaps", r#"list "" configmaps in "a" named """#),
            ("GET", "/api/v1/namespaces/a/configmaps?watch=1", r#"watch "" configmaps in "a" named """#),
            ("GET", "/api/v1/configmaps?watch=true&watch=false", r#"watch "" configmaps in "" named """#),
            ("GET", "/api/v1/configmaps?watch=yes", r#"watch "" configmaps in "" named """#),
            ("GET", "/api/v1/configmaps?watch=False", r#"list "" configmaps in "" named """#),
            ("GET", "/api/v1/watch/namespaces/a/configmaps", r#"watch "" configmaps in "a" named """#),
            ("GET", "/apis/g/v1/watch/namespaces/a/files/b", r#"watch "g" files in "a" named "b""#),
            ("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx", r#"list "" configmaps in "" named "x""#),
            ("GET", "/api/v1/namespaces/a/configmaps/b?watch=1", r#"get "" configmaps in "a" named "b""#),
            ("DELETE", "/apis/g/v1/namespaces/a/files", r#"deletecollection "g" files in "a" named """#),
            ("DELETE", "/apis/g/v1/files/b", r#"delete "g" files in "" named "b""#),
            ("PATCH", "/apis/g/v1/files/b/status", r#"patch "g" files/status in "" named "b""#),
            ("POST", "/apis/g/v1/namespaces/a/files", r#"create "g" files in "a" named """#),
            ("GET", "/apis/g/v1", "get /apis/g/v1"),
            ("POST", "/version", "post /version"),
            ("GET", "/foo/bar?x=y", "get /foo/bar"),
        ] {
            assert_eq!(shown(method, uri), expected, "{method} {uri}");
        }
    }
}
