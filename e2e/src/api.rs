//! Plain requests: for tests that need more of them than kubectl can make. HTTP/1.1 over TLS, and no more of both than
//! an API server needs.

use std::fmt;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;

use crate::{Kubectl, wire};

/// How long an answer may take. A server that was killed closes the connection at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a server is and how it is trusted.
#[derive(Clone)]
pub struct Api {
    address: String,
    token: String,
    tls: Arc<ClientConfig>,
}

/// One connection. It is of no use after an error.
pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    address: String,
    token: String,
}

/// A request as it goes over the wire.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// GET, POST…
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Headers beyond host, authorization and length.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer as it came over the wire.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP code.
    pub code: u16,
    /// The headers, names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// The body. Empty for a stream.
    pub body: Vec<u8>,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub body: Value,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct Change {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    pub kind: String,
    /// The object as it is then.
    pub object: Value,
}

/// A stream of changes.
pub struct Watch {
    connection: Connection,
    /// Whether events are frames of protobuf, and no lines.
    framed: bool,
    /// What was read and is not a whole line or frame yet.
    rest: Vec<u8>,
}

impl Api {
    /// The server of kubectl's kubeconfig.
    ///
    /// # Panics
    /// When that cannot be read.
    #[must_use]
    #[track_caller]
    pub fn new(kubectl: &Kubectl) -> Self {
        let text = kubectl.ok(&["config", "view", "--raw", "--minify", "--output=json"]);
        let config: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
        let cluster = &config["clusters"][0]["cluster"];
        let authority = match cluster["certificate-authority-data"].as_str() {
            Some(data) => BASE64_STANDARD.decode(data).expect("base64"),
            None => std::fs::read(text_of(&cluster["certificate-authority"])).expect("a readable authority"),
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate.expect("a certificate")).expect("a usable certificate");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = text_of(&cluster["server"]);
        let address = server.strip_prefix("https://").expect("https").to_owned();
        Self { address, token: text_of(&config["users"][0]["user"]["token"]).to_owned(), tls: Arc::new(tls) }
    }

    /// A new connection.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("127.0.0.1").map_err(Error::other)?;
        let session = ClientConnection::new(Arc::clone(&self.tls), name).map_err(Error::other)?;
        let stream = BufReader::new(StreamOwned::new(session, socket));
        Ok(Connection { stream, address: self.address.clone(), token: self.token.clone() })
    }

    /// One request on a connection of its own.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.connect()?.request(method, path, body)
    }

    /// Watches `path`, which says from where (`…?resourceVersion=…`).
    ///
    /// # Errors
    /// When the server does not answer with a stream.
    pub fn watch(&self, path: &str) -> Result<Watch> {
        let headers = vec![("Accept".to_owned(), "application/json".to_owned())];
        let request = Request { method: "GET".to_owned(), path: path.to_owned(), headers, body: Vec::new() };
        match self.stream(&request)? {
            (_, Some(watch)) => Ok(watch),
            (response, None) => Err(Error::other(format!("no watch: {response:?}"))),
        }
    }

    /// Sends a request whose answer is a stream, unless it is refused: then the answer has a body.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn stream(&self, request: &Request) -> Result<(Response, Option<Watch>)> {
        let mut connection = self.connect()?;
        connection.send(request)?;
        let head = connection.head()?;
        if head.code == 200 && head.chunked {
            let response = Response { code: head.code, headers: head.headers, body: Vec::new() };
            let media = response.headers.iter().find(|(name, _)| name == "content-type");
            let framed = media.is_some_and(|(_, media)| media.contains("protobuf"));
            return Ok((response, Some(Watch { connection, framed, rest: Vec::new() })));
        }
        let body = connection.bytes(&head)?;
        Ok((Response { code: head.code, headers: head.headers, body }, None))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[derive(Debug)]
struct Head {
    code: u16,
    length: usize,
    chunked: bool,
    headers: Vec<(String, String)>,
}

impl Connection {
    /// One request and its answer. A PATCH is a merge patch.
    ///
    /// # Errors
    /// When there is no answer: the server may have done it or not.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("Accept", "application/json"), ("Content-Type", content)];
        let response = self.exchange(&Request {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: body.map(Value::to_string).unwrap_or_default().into_bytes(),
        })?;
        Ok(Answer { code: response.code, body: json(&response.body) })
    }

    /// One request and its answer, whatever they are.
    ///
    /// # Errors
    /// When there is no answer: the server may have done it or not.
    pub fn exchange(&mut self, request: &Request) -> Result<Response> {
        self.send(request)?;
        let head = self.head()?;
        let body = self.bytes(&head)?;
        Ok(Response { code: head.code, headers: head.headers, body })
    }

    fn send(&mut self, request: &Request) -> Result<()> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n",
            request.method,
            request.path,
            self.address,
            self.token,
            request.body.len(),
        );
        for (name, value) in &request.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes())?;
        stream.write_all(&request.body)?;
        stream.flush()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn head(&mut self) -> Result<Head> {
        let strange = |line: &str| Error::new(ErrorKind::InvalidData, format!("not HTTP: {line:?}"));
        let status = self.line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| strange(&status))?;
        let mut head = Head { code, length: 0, chunked: false, headers: Vec::new() };
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                return if line.is_empty() { Ok(head) } else { Err(strange(&line)) };
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            match name.as_str() {
                "content-length" => head.length = value.parse().map_err(|_| strange(&line))?,
                "transfer-encoding" => head.chunked = value == "chunked",
                _ => {}
            }
            head.headers.push((name, value));
        }
    }

    fn bytes(&mut self, head: &Head) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if head.chunked {
            while let Some(chunk) = self.chunk()? {
                bytes.extend(chunk);
            }
        } else {
            bytes.resize(head.length, 0);
            self.stream.read_exact(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// The next chunk; nothing after the last.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).map_err(|_| Error::new(ErrorKind::InvalidData, size))?;
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok((size > 0).then_some(bytes))
    }
}

/// A body as JSON, or as text if it is none.
fn json(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into())
}

impl Response {
    /// The body as JSON, also where it is YAML or protobuf, or as text if it is none of them.
    #[must_use]
    pub fn json(&self) -> Value {
        if let Some(body) = wire::shown(&self.body) {
            return body;
        }
        let text = String::from_utf8_lossy(&self.body);
        let yaml = self.headers.iter().any(|header| *header == ("content-type".into(), "application/yaml".into()));
        yaml.then(|| serde_saphyr::from_str(&text).ok()).flatten().unwrap_or_else(|| json(&self.body))
    }
}

impl Watch {
    /// Changes how long [`next_change`](Self::next_change) waits.
    ///
    /// # Errors
    /// When the system does not know our socket.
    pub fn with_patience(self, patience: Duration) -> Result<Self> {
        self.connection.stream.get_ref().sock.set_read_timeout(Some(patience))?;
        Ok(self)
    }

    /// Waits for the next change; nothing when the stream has ended properly.
    ///
    /// # Errors
    /// When it was cut.
    pub fn next_change(&mut self) -> Result<Option<Change>> {
        loop {
            if self.framed
                && let Some(frame) = self.frame()
            {
                let (kind, object) =
                    wire::event(&frame).ok_or_else(|| Error::other(format!("no event: {frame:02x?}")))?;
                return Ok(Some(Change { kind, object }));
            }
            if !self.framed
                && let Some(end) = self.rest.iter().position(|byte| *byte == b'\n')
            {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line)?;
                let kind = text_of(&event["type"]).to_owned();
                return Ok(Some(Change { kind, object: event["object"].take() }));
            }
            match self.connection.chunk()? {
                Some(chunk) => self.rest.extend(chunk),
                None => return Ok(None),
            }
        }
    }
}

impl Watch {
    /// The next frame, if all of it is there: its length stands before it.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let length = u32::from_be_bytes(*self.rest.first_chunk()?) as usize;
        (self.rest.len() >= length + 4).then(|| self.rest.drain(..length + 4).skip(4).collect())
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("connection", &self.connection).finish_non_exhaustive()
    }
}
