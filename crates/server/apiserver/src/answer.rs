//! The way of a request: who it is about, what is wanted, and the answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use concert_api::{ObjectKey, Status};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::Server;
use crate::access;
use crate::auth::User;
use crate::body::Media;
use crate::burden::{Arrived, Burden};
use crate::change::Change;
use crate::delete::{DeleteOptions, Deleted};
use crate::discovery;
use crate::limits;
use crate::openapi;
use crate::parts;
use crate::protobuf;
use crate::read::Page;
use crate::read::encoded;
use crate::read::pieces::Writer;
use crate::respond::{self, Body, Count, Encoding, Form, Offer, Wanted};
use crate::scale;
use crate::target::{Part, Query, Route, Target, plain, program, route};
use crate::write::Written;

/// The Kubernetes version whose API this is.
pub(crate) const VERSION: (&str, &str, &str) = ("1", "37", "v1.37.1");

impl Server {
    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let negotiated = ["/api", "/version"].iter().any(|path| parts.uri.path().starts_with(path));
        let plain = if negotiated { respond::plain(&parts.headers) } else { Encoding::Json };
        let pretty = respond::pretty::is_wanted(&parts);
        let sender = parts.extensions.get::<User>().cloned();
        let (response, admitted) = match self.admit(&parts) {
            Ok(mut admitted) => {
                let caller = admitted.caller.take();
                (self.answer_admitted(parts, caller, body).await, Some(admitted))
            }
            Err(refusal) => (*refusal, None),
        };
        let encoding = response.extensions().get::<Encoding>().copied().unwrap_or(plain);
        let response = match encoding {
            Encoding::Json if pretty => respond::pretty::printed(response),
            Encoding::Json => response,
            Encoding::Yaml => self.in_yaml(sender.as_ref(), response).await,
            Encoding::Protobuf => respond::in_protobuf(response).await,
        };
        let mut response = match admitted {
            Some(admitted) => admitted.holds(response),
            None => response,
        };
        respond::identify(&mut response, &self.world().random.uuid());
        response
    }

    /// Writes an answer of JSON in YAML; a large one when there is room for it.
    async fn in_yaml(&self, sender: Option<&User>, response: Response<Body>) -> Response<Body> {
        if !respond::is_json(&response) {
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let burden = Burden::of(&body);
        match self.room_for(sender, burden).await {
            Ok(_room) => burden.carried(async { respond::in_yaml(parts, body) }).await,
            Err(status) => respond::failure(&status),
        }
    }

    /// Answers a request that was let in.
    async fn answer_admitted<B>(&self, parts: Parts, caller: Option<Arc<User>>, body: B) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = parts.uri.clone();
        let Some(path) = plain(uri.path()) else { return respond::text(400, "400 Bad Request") };
        let Some(route) = route(&path) else { return respond::nowhere() };
        match route {
            Route::Index => respond::json(200, &json!({"paths": discovery::paths(&self.kinds())})),
            Route::Version if parts.method != Method::GET => respond::failure(&Status::method_not_allowed()),
            Route::Version => match respond::negotiate(&parts.headers, Offer::Fixed) {
                Ok(_) => respond::json(200, &version()),
                Err(status) => respond::failure(&status),
            },
            Route::OpenApiV2 => openapi::version_two(&parts.headers),
            Route::Health(check) => respond::text(200, health(check, uri.query().unwrap_or_default())),
            Route::Backup if parts.method == Method::GET => respond::download(self.store().backup()),
            Route::Backup => respond::failure(&Status::method_not_allowed()),
            Route::Discovery(segments) => self.discovery(&parts.method, &segments, &parts.headers),
            Route::OpenApi(document) => self.openapi(document),
            Route::Resource(path) => self.answer_path(&path, parts, caller, body).await,
        }
    }

    /// Answers a request about what is stored under a path, or asked there.
    async fn answer_path<B>(
        &self,
        path: &crate::target::Path<'_>,
        mut parts: Parts,
        caller: Option<Arc<User>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let sender = parts.extensions.get::<User>().cloned();
        if let Some(account) = path.token_of() {
            return self.answer_token(&account, parts, caller, body).await;
        }
        if path.group == access::GROUP {
            self.expect_roles().await;
        }
        let found = Target::find(&self.kinds(), path).or_else(|| Target::find(&self.refresh_kinds(), path));
        let Some(target) = found else { return self.no_resource(path) };
        if target.resource.is_custom() && !target.may_take(&parts.method) {
            return respond::nowhere();
        }
        let watched = path.watched;
        let answer = async {
            let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
            let program = program(&parts.headers);
            let query = Query { caller, program, watch: query.watch || watched, watched_one: watched, ..query };
            if watched && parts.method != Method::GET {
                return Err(Status::method_not_allowed());
            }
            let wanted = respond::negotiate(&parts.headers, offer(&parts.method, &target))?;
            if query.watch {
                wanted.check_stream()?;
            }
            let Arrived { bytes, room } = self.read_body(sender.as_ref(), body).await?;
            let burden = self.burden(&parts.method, &parts.headers, &target, &bytes);
            let _room = self.room_for(sender.as_ref(), burden).await?;
            let work = async {
                let body = protobuf::translated(&parts.method, &mut parts.headers, &target, bytes)?;
                self.resource(&parts.method, &parts.headers, &target, &query, wanted, &body).await
            };
            let mut response = burden.carried(work).await?;
            response.extensions_mut().insert(wanted.encoding);
            // A large one is answered at length, and its reader may be slow.
            Ok(match room {
                Some(room) => limits::keeping(response, room),
                None => response,
            })
        };
        let mut response = answer.await.unwrap_or_else(|status| respond::failure(&status));
        // Where there is nothing to be called nobody is warned; what is not watched can be read.
        let refused = response.status() == http::StatusCode::METHOD_NOT_ALLOWED && parts.method != Method::GET;
        if let Some(warning) = target.version().deprecated.as_ref().filter(|_| !refused) {
            respond::warn_first(&mut response, warning);
        }
        response
    }

    /// The answer where a path leads to no resource: of a built-in group that nothing is found, of a custom resource
    /// that the object is not there, and else nothing at all.
    fn no_resource(&self, path: &crate::target::Path<'_>) -> Response<Body> {
        let kinds = self.kinds();
        let mut same_group = kinds.iter().filter(|one| *one.id.group == *path.group).peekable();
        if same_group.peek().is_some_and(|one| !one.is_custom()) {
            return respond::failure(&respond::no_resource());
        }
        match (kinds.get(path.group, path.resource), &path.name) {
            (Some(resource), Some(name))
                if path.subresource.is_some()
                    && resource.version(path.version).is_some()
                    && resource.namespaced == path.namespace.is_some() =>
            {
                respond::failure(&Status::not_found(&resource.id, name))
            }
            _ => respond::nowhere(),
        }
    }

    /// Answers a request for a token of a service account.
    async fn answer_token<B>(
        &self,
        account: &ObjectKey,
        mut parts: Parts,
        caller: Option<Arc<User>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let sender = parts.extensions.get::<User>().cloned();
        let answer = async {
            let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
            let query = Query { caller, program: program(&parts.headers), ..query };
            if parts.method != Method::POST {
                return Err(Status::method_not_allowed());
            }
            respond::negotiate(&parts.headers, Offer::Answer)?;
            let Arrived { bytes: body, .. } = self.read_body(sender.as_ref(), body).await?;
            let expected = ("authentication.k8s.io/v1", "TokenRequest");
            let body = protobuf::json(&mut parts.headers, expected, body)?;
            let written = self.request_token(account, &query, Media::of(&parts.headers)?, &body)?;
            let mut response = respond::bytes(written.code, written.object);
            respond::warn(&mut response, &written.warnings);
            Ok(response)
        };
        answer.await.unwrap_or_else(|status| respond::failure(&status))
    }

    async fn resource(
        &self,
        method: &Method,
        headers: &HeaderMap,
        target: &Target,
        query: &Query,
        wanted: Wanted,
        body: &[u8],
    ) -> Result<Response<Body>, Status> {
        if method != Method::GET {
            // A fork's begins with its first write.
            self.keep_house();
        }
        if let Some(answered) = self.acted(method, headers, target, query, wanted, body).await {
            return answered;
        }
        let media = || Media::of(headers);
        match (method, target.name.is_some()) {
            (&Method::GET | &Method::HEAD, _) if method == Method::GET || target.resource.is_custom() => {
                self.read(target, query, wanted).await
            }
            (&Method::POST, false) if !target.resource.namespaced || target.namespace.is_some() => {
                let written = self.create(target, query, media()?, body).await?;
                self.written(target, query, wanted.form, written)
            }
            (&Method::PUT, true) => {
                let change = Change::replace(target, query, media()?, body)?;
                let written = self.update(target, query, &change).await?;
                self.written(target, query, wanted.form, written)
            }
            (&Method::PATCH, true) if target.part != Part::Finalize => {
                let change = Change::patch(target, query, headers, body)?;
                let written = self.update(target, query, &change).await?;
                self.written(target, query, wanted.form, written)
            }
            (&Method::DELETE, true) if target.part == Part::Whole => {
                let options = DeleteOptions::read(media()?, body, query)?;
                Ok(match self.delete(target, &options).await? {
                    Deleted::Gone(status) => respond::json(200, &status),
                    Deleted::Marked(object) => respond::bytes(200, object),
                })
            }
            (&Method::DELETE, false) if target.is_collection() && target.resource.deletes_collections() => {
                let options = DeleteOptions::read(media()?, body, query)?.of_many()?;
                let page = self.delete_collection(target, query, &options).await?;
                self.listed(target, query, wanted, page)
            }
            (&Method::PUT | &Method::PATCH, false) if target.resource.is_custom() => {
                Err(Status::bad_request("name must be provided"))
            }
            _ => Err(not_allowed(method, target)),
        }
    }

    /// The answer where nothing is stored under the path itself: to a question, to what is done to an object, and to
    /// what cannot be done. `None`: it is about stored objects.
    async fn acted(
        &self,
        method: &Method,
        headers: &HeaderMap,
        target: &Target,
        query: &Query,
        wanted: Wanted,
        body: &[u8],
    ) -> Option<Result<Response<Body>, Status>> {
        let answered = target.resource.is_answered();
        let acts =
            matches!(target.part, Part::Binding | Part::Eviction) || (answered && target.resource.kind == "Binding");
        match target.part {
            Part::Node => Some(Err(parts::no_node(self, target))),
            _ if answered && target.name.is_some() => Some(Err(Status::no_such_resource())),
            _ if (answered || acts) && method != Method::POST => Some(Err(Status::method_not_allowed())),
            _ if acts => {
                let work = async {
                    let written = self.act(target, query, Media::of(headers)?, body).await?;
                    Ok(respond::bytes(written.code, written.object))
                };
                Some(work.await)
            }
            _ if answered => {
                let review = Media::of(headers).and_then(|media| self.review(target, query, media, body));
                Some(review.and_then(|written| self.written(target, query, wanted.form, written)))
            }
            Part::Whole if !allows(target, method) => Some(Err(Status::method_not_allowed())),
            _ => None,
        }
    }

    /// GET: of one object or many, once or for a while.
    async fn read(&self, target: &Target, query: &Query, wanted: Wanted) -> Result<Response<Body>, Status> {
        if target.part == Part::Finalize {
            return Err(Status::method_not_allowed());
        }
        if target.name.is_some() && !query.watched_one {
            return Ok(respond::bytes(200, self.get(target, query, wanted.form).await?));
        }
        if query.watch {
            if target.version().builtin.is_some_and(|builtin| !builtin.can("watch")) {
                return Err(not_supported("watch", target));
            }
            return Ok(respond::events(wanted.encoding, self.watch(target, query, wanted).await?));
        }
        let page = self.page(target, query).await?;
        self.listed(target, query, wanted, page)
    }

    fn listed(&self, target: &Target, query: &Query, wanted: Wanted, page: Page) -> Result<Response<Body>, Status> {
        crate::table::check_count(target, wanted.form, Count::Many)?;
        if wanted.encoding == Encoding::Protobuf {
            return Ok(respond::protobuf_stream(encoded::pieces(target, wanted.form, page)?));
        }
        Ok(respond::stream(Writer::new(target, query, wanted.form, self.now())?.pieces(page)))
    }

    /// The answer to a write: the object in the form the client wants, and its warnings.
    fn written(&self, target: &Target, query: &Query, form: Form, written: Written) -> Result<Response<Body>, Status> {
        let body = match form {
            _ if target.part == Part::Scale => {
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                scale::shaped(target, query, form, &scale::before(target, &object)?, self.now())?
            }
            Form::Object | Form::AggregatedDiscovery(_) => written.object,
            Form::Table(version) => {
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                let revision = object["metadata"].get("resourceVersion");
                let metadata = revision.map_or(json!({}), |revision| json!({"resourceVersion": revision}));
                let table = crate::table::table(target, query, version, &object, &metadata, self.now())?;
                table.to_string().into()
            }
            Form::Metadata(version, _) => {
                crate::table::check_count(target, form, Count::One)?;
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                crate::table::metadata_only(version, &object).to_string().into()
            }
        };
        let mut response = respond::bytes(written.code, body);
        respond::warn(&mut response, &written.warnings);
        Ok(response)
    }
}

impl<B> tower::Service<Request<B>> for Server
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

/// Whether a built-in kind can be changed at all: some are only looked at.
fn allows(target: &Target, method: &Method) -> bool {
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    };
    target.version().builtin.is_none_or(|builtin| builtin.can(verb))
}

fn offer(method: &Method, target: &Target) -> Offer {
    if target.resource.is_answered() {
        return Offer::Answer;
    }
    match (target.resource.is_custom(), method == Method::GET && target.name.is_none()) {
        (true, _) => Offer::Custom,
        (false, true) => Offer::Builtin(Count::Many),
        (false, false) => Offer::Builtin(Count::One),
    }
}

/// 405; custom resources say it in other words for their subresources.
fn not_allowed(method: &Method, target: &Target) -> Status {
    let verb = match *method {
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => return Status::method_not_allowed(),
    };
    if target.part == Part::Whole || !target.resource.is_custom() {
        return Status::method_not_allowed();
    }
    not_supported(verb, target)
}

fn not_supported(verb: &str, target: &Target) -> Status {
    let id = &target.resource.id;
    let message = format!("{verb} is not supported on resources of kind \"{id}\"");
    Status::failure(405, "MethodNotAllowed", message).about(id, "")
}

/// What a probe is told. A server that answers has its store: one whose store failed is gone.
fn health(check: &str, query: &str) -> String {
    let verbose = form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "verbose");
    if verbose && !check.contains('/') {
        format!("[+]ping ok\n[+]store ok\n{check} check passed\n")
    } else {
        "ok".to_owned()
    }
}

fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": "36", "gitVersion": format!("{git}+concert"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}
