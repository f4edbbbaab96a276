//! Which request is answered by what.

use core::time::Duration;
use std::net::IpAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
use service::{Counter, Declined, HttpTally, Principal};

use crate::access::{Access, Forbidden};
use crate::api;
use crate::http::{self, Answer, Open};
use crate::live;
use crate::metrics;
use crate::pages;
use crate::shared::Shared;
use crate::stream::Watch;

/// Who asks.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) from: IpAddr,
    pub(crate) watch: Rc<Watch>,
}

/// What answers.
pub(crate) struct Routes {
    pub(crate) access: Access,
    pub(crate) shared: Rc<Shared>,
    pub(crate) tally: HttpTally,
    pub(crate) open: Rc<Open>,
    pub(crate) request_within: Duration,
}

/// Why there is no answer but an error.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is not allowed.
    Forbidden(Forbidden),
    /// There is no such thing.
    NotFound,
    /// There is, but not by this method; by which it is.
    Method(&'static str),
    /// The arguments, or the body, make no sense.
    Bad(String),
    /// Administration has not answered, or not done it.
    Declined(Declined),
    /// It cannot be done.
    Refused(String),
    /// The body did not come in time.
    Slow,
    /// As many are served as may be.
    Busy(String),
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

impl Routes {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>, client: Client) -> Answer {
        self.tally.add(Counter::HttpRequests, 1);
        match self.find(request, client).await {
            Ok(answer) => answer,
            Err(failure) => self.refuse(&failure),
        }
    }

    async fn find(&self, request: Request<Incoming>, client: Client) -> Result<Answer, Failure> {
        self.access.check_host(request.headers())?;
        let path = request.uri().path().to_owned();
        let is_reading = [Method::GET, Method::HEAD].contains(request.method());
        match path.as_str() {
            "/healthz" | "/readyz" if is_reading => return Ok(self.tell_health(path == "/readyz").await),
            "/healthz" | "/readyz" | "/metrics" if !is_reading => return Err(Failure::Method("GET, HEAD")),
            _ => {}
        }
        if is_reading && let Some(file) = pages::find(&path) {
            return Ok(file);
        }
        let has_token = self.access.shows_token(request.headers());
        let by = Principal::Operator { address: client.from, has_token };
        if path == "/metrics" {
            self.access.check_reading(request.headers())?;
            let standing = self.shared.standing(by).await?;
            let accepts = request.headers().get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
            let (is_former, kind) = metrics::format(accepts);
            return Ok(http::whole(kind, metrics::write(&standing, &self.shared, is_former)));
        }
        let Some(path) = path.strip_prefix("/api/v1/") else { return Err(Failure::NotFound) };
        if is_reading {
            self.access.check_reading(request.headers())?;
            // A page of another site could not read it, and is to occupy nothing.
            self.access.check_site(request.headers())?;
            match path {
                "live" => return live::tell(self, client, by),
                "events" => {
                    self.access.check_watching(request.headers())?;
                    return live::watch(self, client, request.uri().query().unwrap_or_default()).await;
                }
                _ => {}
            }
            return api::tell(self, path, request.uri().query().unwrap_or_default(), by).await;
        }
        if request.method() != Method::POST {
            return Err(Failure::Method("GET, HEAD, POST"));
        }
        self.access.check_changing(request.headers())?;
        let is_json = request
            .headers()
            .get("content-type")
            .is_some_and(|kind| kind.as_bytes().starts_with(http::JSON.as_bytes()));
        if !is_json {
            return Err(Failure::Bad("the body is to be application/json".to_owned()));
        }
        let body = tokio::time::timeout(self.request_within, http::read(request.into_body()));
        let body = body.await.map_err(|_| Failure::Slow)?;
        let body = body.ok_or_else(|| Failure::Bad("the body is more than 64 KiB, or ends early".to_owned()))?;
        let answer = api::change(self, path, &body, by).await?;
        self.tally.add(Counter::HttpCommands, 1);
        Ok(answer)
    }

    /// Whether administration and all lanes go on; and, for whoever wants to send events, whether the store writes.
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
            Failure::Forbidden(Forbidden::Token) => (
                Counter::HttpUnauthorized,
                StatusCode::UNAUTHORIZED,
                "this needs the token: Authorization: Bearer TOKEN".to_owned(),
            ),
            Failure::Forbidden(Forbidden::ReadOnly) => (
                Counter::HttpUnauthorized,
                StatusCode::FORBIDDEN,
                "nothing can be changed over HTTP: http.token_file is not configured".to_owned(),
            ),
            Failure::NotFound => (Counter::HttpNotFound, StatusCode::NOT_FOUND, "there is no such thing".to_owned()),
            Failure::Method(_) => {
                (Counter::HttpNotFound, StatusCode::METHOD_NOT_ALLOWED, "not by this method".to_owned())
            }
            Failure::Bad(why) => (Counter::HttpBodiesRefused, StatusCode::BAD_REQUEST, why.clone()),
            Failure::Slow => {
                (Counter::HttpSlowRequests, StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned())
            }
            Failure::Busy(why) => (Counter::HttpDeclined, StatusCode::SERVICE_UNAVAILABLE, why.clone()),
            Failure::Refused(why) => (Counter::HttpBodiesRefused, StatusCode::CONFLICT, why.clone()),
            Failure::Declined(why) => (Counter::HttpDeclined, StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
        };
        self.tally.add(counter, 1);
        let mut answer = http::refused(status, &why);
        match failure {
            Failure::Method(allowed) => drop(answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed))),
            Failure::Forbidden(Forbidden::Token) => {
                answer.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer realm=\"Campanile\""));
            }
            // The rest of it is not read.
            Failure::Slow => drop(answer.headers_mut().insert("connection", HeaderValue::from_static("close"))),
            _ => {}
        }
        answer
    }
}
