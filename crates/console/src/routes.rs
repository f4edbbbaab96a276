//! Routing of requests to their handlers.

use core::cell::Cell;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue, SEC_WEBSOCKET_VERSION};
use hyper::{Method, Request, StatusCode};
use service::{
    CertifiedName, Counter, Declined, HTTP_TOKEN_NAME, HttpCounters, NOT_PERMITTED, Operators, Principal, VisitPurpose,
};
use tokio::net::UnixStream;

use crate::access::{Access, Asking, Forbidden, shown_token};
use crate::api;
use crate::history;
use crate::http::{self, Answer, Open};
use crate::live;
use crate::metrics;
use crate::pages;
use crate::publish;
use crate::shared::{ANSWERS_WITHIN, Shared, on_a_thread};
use crate::stream::Watch;
use crate::watching::Unanswered;
use crate::websocket::{self, WebSocket};

/// A client, as known from its connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) from: SocketAddr,
    /// Whether its listener accepts clients from other hosts.
    pub(crate) is_outside: bool,
    /// The client's name from its certificate.
    pub(crate) certified: Option<Arc<CertifiedName>>,
    /// Whether its connection is beyond the limit, where only health checks and changes are served.
    pub(crate) is_reserved: bool,
    pub(crate) watch: Rc<Watch>,
    /// The WebSocket that its connection becomes after the answer.
    pub(crate) upgrade: Rc<Cell<Option<WebSocket>>>,
}

/// The handlers of requests.
pub(crate) struct Routes {
    pub(crate) access: Access,
    pub(crate) operators: Operators,
    pub(crate) shared: Rc<Shared>,
    pub(crate) http_counters: HttpCounters,
    pub(crate) open: Rc<Open>,
    pub(crate) request_within: Duration,
    pub(crate) websockets: websocket::Limits,
}

/// Why a request fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request is not allowed.
    Forbidden(Forbidden),
    /// The rules of access do not allow it, as administration has noted.
    Denied(service::Forbidden),
    /// The rules of access reserve the right to administer the service to others.
    NeedsAdministrator,
    /// The path does not exist.
    NotFound,
    /// No channel or link has the name; the text suggests names.
    NotNamed(String),
    /// The method is wrong; the text has the right one.
    Method(&'static str),
    /// The arguments, or the body, are invalid.
    Bad(String),
    /// Administration did not answer, or declined.
    Declined(Declined),
    /// The request cannot be carried out.
    Refused(String),
    /// The body did not arrive in time.
    Slow,
    /// Too many such requests are being served.
    Busy(String),
    /// The version of the WebSocket protocol is not supported.
    WebSocketVersion,
}

impl From<Declined> for Failure {
    fn from(why: Declined) -> Self {
        Self::Declined(why)
    }
}

impl From<Forbidden> for Failure {
    fn from(why: Forbidden) -> Self {
        Self::Forbidden(why)
    }
}

impl From<Unanswered> for Failure {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Refused(why) if why == NOT_PERMITTED => {
                Self::Denied(service::Forbidden { why, rule: "its event type".to_owned() })
            }
            Unanswered::Refused(why) => Self::Refused(why),
            why => Self::Busy(why.to_string()),
        }
    }
}

impl Routes {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>, client: Client) -> Answer {
        self.http_counters.add(Counter::HttpRequests, 1);
        match self.find(request, client).await {
            Ok(answer) => answer,
            Err(failure) => self.refuse(&failure),
        }
    }

    async fn find(&self, request: Request<Incoming>, client: Client) -> Result<Answer, Failure> {
        self.access.check_host(request.uri(), request.headers())?;
        let path = request.uri().path().to_owned();
        let is_reading = [Method::GET, Method::HEAD].contains(request.method());
        match path.as_str() {
            "/healthz" | "/readyz" if is_reading => return Ok(self.tell_health(path == "/readyz").await),
            "/healthz" | "/readyz" | "/metrics" if !is_reading => return Err(Failure::Method("GET, HEAD")),
            _ => {}
        }
        if client.is_reserved && request.method() != Method::POST {
            let why = "as many connections are open as may be (http.connections_max), and all are being answered";
            return Err(Failure::Busy(why.to_owned()));
        }
        if is_reading && let Some(file) = pages::find(&path) {
            return Ok(file);
        }
        let asking = self.recognize(request.headers(), &client).inspect_err(|_| {
            let by = self.operators.principal(client.from.ip(), None, client.certified.clone());
            self.note_refused(request.method(), &path, &by, "the token is unknown");
        })?;
        if path == "/metrics" {
            Access::check_reading(&asking, client.is_outside)?;
            let snapshot = self.shared.snapshot().await?;
            let accepts = request.headers().get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
            let (is_former, kind) = metrics::format(accepts);
            return Ok(http::whole(kind, metrics::write(&snapshot, &self.shared, is_former)));
        }
        let Some(path) = path.strip_prefix("/api/v1/") else { return Err(Failure::NotFound) };
        if is_reading {
            Access::check_reading(&asking, client.is_outside)?;
            if path == "events" && websocket::is_requested(request.headers()) {
                return websocket::open(self, &request, client, asking).await;
            }
            // A page of another site could not read it, and is to occupy nothing.
            self.access.check_site(request.headers())?;
            let query = request.uri().query().unwrap_or_default();
            return match path {
                "live" => live::tell(self, client),
                "events" => live::watch(self, client, query, asking.by).await,
                "history" => history::tell(self, client, query, asking.by).await,
                _ => api::tell(self, path, query, asking, client.is_outside).await,
            };
        }
        if request.method() == Method::POST {
            return self.change(path, request, client, asking).await;
        }
        Err(Failure::Method("GET, HEAD, POST"))
    }

    /// Carries out a client's change.
    async fn change(
        &self,
        path: &str,
        request: Request<Incoming>,
        client: Client,
        asking: Asking,
    ) -> Result<Answer, Failure> {
        self.access.check_changing(request.headers(), &asking).inspect_err(|why| {
            let why = match why {
                Forbidden::ReadOnly => "there is no token by which anything could be changed",
                Forbidden::CrossSite => "it is a page of another site",
                _ => "it has not shown the token",
            };
            self.note_refused(&Method::POST, path, &asking.by, why);
        })?;
        let mut kinds = request.headers().get_all("content-type").into_iter().peekable();
        let has_kind = kinds.peek().is_some();
        if !has_kind || !kinds.all(|kind| kind.as_bytes().starts_with(http::JSON.as_bytes())) {
            return Err(Failure::Bad("the body is to be application/json".to_owned()));
        }
        let body = tokio::time::timeout(self.request_within, http::read(request.into_body()));
        let body = body.await.map_err(|_| Failure::Slow)?;
        let body = body.ok_or_else(|| Failure::Bad("the body is more than 64 KiB, or ends early".to_owned()))?;
        let answer = match path {
            "publish" => publish::publish(self, &body, asking, (client.from, client.is_outside)).await?,
            _ => api::change(self, path, &body, (asking, client.is_outside)).await?,
        };
        self.http_counters.add(Counter::HttpCommands, 1);
        Ok(answer)
    }

    /// Connects a client to the service for lines of JSON, for a purpose for which it has the right.
    pub(crate) async fn visit(
        &self,
        by: Principal,
        from: SocketAddr,
        purpose: VisitPurpose,
    ) -> Result<UnixStream, Failure> {
        let operators = self.operators.clone();
        let (stream, told) = on_a_thread(move || operators.visit(&by, from, purpose, ANSWERS_WITHIN)).await?;
        api::allowed(told)?;
        UnixStream::from_std(stream).map_err(|error| Failure::Busy(error.to_string()))
    }

    /// Identifies the client. With rules of access, an unknown token is always refused.
    fn recognize(&self, headers: &HeaderMap, client: &Client) -> Result<Asking, Forbidden> {
        let shown = shown_token(headers);
        let shown = shown.as_deref();
        let has_token = shown.is_some_and(|shown| self.access.is_token(shown));
        let is_ruled = self.operators.are_ruled();
        let token = match shown {
            Some(_) if has_token => Some(HTTP_TOKEN_NAME.into()),
            Some(shown) if is_ruled => Some(self.operators.find_token(shown).ok_or(Forbidden::NoSuchToken)?),
            _ => None,
        };
        let by = self.operators.principal(client.from.ip(), token, client.certified.clone());
        let has_right = is_ruled.then(|| self.operators.has_any_right(&by));
        Ok(Asking { by, has_token, has_right })
    }

    /// Writes an audit line for a change that is refused here. Reads have none.
    fn note_refused(&self, method: &Method, path: &str, by: &Principal, why: &'static str) {
        let what = path.strip_prefix("/api/v1/").unwrap_or(path).escape_debug().to_string();
        if *method == Method::POST && !self.operators.note_refused(by, what, why) {
            self.http_counters.add(Counter::AuditLeftOut, 1);
        }
    }

    /// Answers whether administration and all lanes run; for readiness, also whether the store can write.
    async fn tell_health(&self, is_readiness: bool) -> Answer {
        let health = api::health(&self.shared, is_readiness).await;
        let status = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let text = match health {
            Ok(()) => "ok\n".to_owned(),
            Err(why) => format!("{why}\n"),
        };
        http::answer(status, http::TEXT, http::Body::Whole(Some(text.into())))
    }

    fn refuse(&self, failure: &Failure) -> Answer {
        let (counter, status, why) = match failure {
            Failure::Forbidden(Forbidden::Host) => (
                Counter::HttpHostsRefused,
                StatusCode::MISDIRECTED_REQUEST,
                "this host is not called so: name it in http.hosts".to_owned(),
            ),
            Failure::Forbidden(Forbidden::CrossSite) => (
                Counter::HttpCrossSiteRefused,
                StatusCode::FORBIDDEN,
                "a page of another site can change nothing here".to_owned(),
            ),
            Failure::Forbidden(Forbidden::Origin) => (
                Counter::HttpCrossSiteRefused,
                StatusCode::FORBIDDEN,
                "pages of other sites open no WebSocket here: name their origin in http.origins".to_owned(),
            ),
            Failure::Forbidden(Forbidden::Token) => (
                Counter::HttpUnauthorized,
                StatusCode::UNAUTHORIZED,
                "this needs the token: Authorization: Bearer TOKEN".to_owned(),
            ),
            Failure::Forbidden(Forbidden::NoSuchToken) => {
                (Counter::DeniedTokens, StatusCode::UNAUTHORIZED, "there is no such token".to_owned())
            }
            Failure::Denied(why) => (Counter::HttpUnauthorized, StatusCode::FORBIDDEN, why.why.clone()),
            Failure::Forbidden(Forbidden::ReadOnly) => (
                Counter::HttpUnauthorized,
                StatusCode::FORBIDDEN,
                "nothing can be changed over HTTP: http.token_file is not configured".to_owned(),
            ),
            Failure::NeedsAdministrator => (
                Counter::HttpUnauthorized,
                StatusCode::FORBIDDEN,
                "this needs the right to administer the service".to_owned(),
            ),
            Failure::NotFound => (Counter::HttpNotFound, StatusCode::NOT_FOUND, "there is no such thing".to_owned()),
            Failure::NotNamed(why) => (Counter::HttpNotFound, StatusCode::NOT_FOUND, why.clone()),
            Failure::Method(_) => {
                (Counter::HttpNotFound, StatusCode::METHOD_NOT_ALLOWED, "not by this method".to_owned())
            }
            Failure::Bad(why) => (Counter::HttpBodiesRefused, StatusCode::BAD_REQUEST, why.clone()),
            Failure::WebSocketVersion => (
                Counter::HttpBodiesRefused,
                StatusCode::UPGRADE_REQUIRED,
                "WebSockets have version 13 here (Sec-WebSocket-Version)".to_owned(),
            ),
            Failure::Slow => {
                (Counter::HttpSlowRequests, StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned())
            }
            Failure::Busy(why) => (Counter::HttpDeclined, StatusCode::SERVICE_UNAVAILABLE, why.clone()),
            Failure::Refused(why) => (Counter::HttpBodiesRefused, StatusCode::CONFLICT, why.clone()),
            Failure::Declined(why) => (Counter::HttpDeclined, StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
        };
        self.http_counters.add(counter, 1);
        let mut answer = match failure {
            Failure::Denied(denied) => http::denied(&why, &denied.rule),
            _ => http::refused(status, &why),
        };
        match failure {
            Failure::Method(allowed) => drop(answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed))),
            Failure::Forbidden(Forbidden::Token | Forbidden::NoSuchToken) => {
                answer.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer realm=\"Campanile\""));
            }
            Failure::WebSocketVersion => {
                answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            // The rest of it is not read.
            Failure::Slow => drop(answer.headers_mut().insert("connection", HeaderValue::from_static("close"))),
            _ => {}
        }
        answer
    }
}
