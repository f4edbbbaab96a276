//! Checks of a request: its host name, its token, and the site of the page that sends it.

use std::borrow::Cow;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use service::{Http, Principal};

use crate::ConsoleError;
use crate::websocket::offered_token;

/// Configuration of the checks.
#[derive(Debug)]
pub(crate) struct Access {
    /// Names of this host, lower case and without ports.
    hosts: Vec<String>,
    /// Other sites with pages that may open WebSockets, lower case.
    origins: Vec<String>,
    /// HTTP's own token, which SIGHUP may change.
    token: Arc<Token>,
}

/// HTTP's own token, if there is one.
pub(crate) type Token = ArcSwapOption<String>;

/// A client that makes a request.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) by: Principal,
    /// Whether it has shown HTTP's own token.
    pub(crate) has_token: bool,
    /// Whether the rules of access give it any right; `None` without rules.
    pub(crate) has_right: Option<bool>,
}

/// Why a request is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// The request names another host, or none.
    Host,
    /// The request comes from a page of another site.
    CrossSite,
    /// A page of another site requests a WebSocket.
    Origin,
    /// The token is missing or wrong.
    Token,
    /// An unknown token was shown.
    NoSuchToken,
    /// No token that would allow it is configured.
    ReadOnly,
}

/// Reads the file of HTTP's own token.
///
/// # Errors
/// The file cannot be read, or has no token.
pub(crate) fn read_token(path: &Path) -> Result<String, ConsoleError> {
    let failed = |why: String| ConsoleError::Token { path: path.to_owned(), why };
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    let is_fit = (16..=256).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    let why = "its first line is to have 16 to 256 visible characters of ASCII, for example what `openssl rand -hex 32` prints";
    if is_fit { Ok(token.to_owned()) } else { Err(failed(why.to_owned())) }
}

impl Access {
    pub(crate) fn new(http: &Http, addresses: impl Iterator<Item = SocketAddr>, token: Arc<Token>) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter();
        let own = own.chain(addresses.map(|address| host_of(address.ip())));
        let lower = |texts: &[String]| texts.iter().map(|text| text.to_ascii_lowercase()).collect::<Vec<_>>();
        Self { hosts: own.chain(lower(&http.hosts)).collect(), origins: lower(&http.origins), token }
    }

    /// Whether a token is configured.
    pub(crate) fn has_token(&self) -> bool {
        self.token.load().is_some()
    }

    /// Checks that a request names this host, so that another site's name that resolves to this address is refused.
    pub(crate) fn check_host(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Forbidden> {
        // A target with a host of its own counts before the field (RFC 9112, 3.2.2): here both have to be this one.
        if target.authority().is_some_and(|authority| !self.is_own(authority.as_str())) {
            return Err(Forbidden::Host);
        }
        let mut hosts = headers.get_all(HOST).into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Forbidden::Host) };
        let is_own = host.to_str().is_ok_and(|host| self.is_own(host));
        if is_own { Ok(()) } else { Err(Forbidden::Host) }
    }

    fn is_own(&self, authority: &str) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        self.hosts.contains(&host)
    }

    /// Whether a token is HTTP's own.
    pub(crate) fn is_token(&self, shown: &[u8]) -> bool {
        self.token.load().as_ref().is_some_and(|token| is_same(token.as_bytes(), shown))
    }

    /// Checks that the client may read; `is_closed` if the listener accepts clients from other hosts.
    pub(crate) fn check_reading(asking: &Asking, is_closed: bool) -> Result<(), Forbidden> {
        let may = !is_closed || asking.has_right.unwrap_or(asking.has_token);
        if may { Ok(()) } else { Err(Forbidden::Token) }
    }

    /// Checks that the client may change something: never from a page of another site, whatever its token. Rules of access are checked by
    /// administration.
    pub(crate) fn check_changing(&self, headers: &HeaderMap, asking: &Asking) -> Result<(), Forbidden> {
        if asking.has_right.is_none() && !self.has_token() {
            return Err(Forbidden::ReadOnly);
        }
        self.check_site(headers)?;
        if asking.has_token || asking.has_right.is_some() { Ok(()) } else { Err(Forbidden::Token) }
    }

    /// Refuses a WebSocket of another site's page, unless that site is listed: browsers open WebSockets without asking first.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        let mut origins = headers.get_all(ORIGIN).into_iter();
        if let (Some(origin), None) = (origins.next(), origins.next())
            && origin.to_str().is_ok_and(|origin| self.origins.contains(&origin.to_ascii_lowercase()))
        {
            return Ok(());
        }
        self.check_site(headers).map_err(|_| Forbidden::Origin)
    }

    /// Refuses a request that a page of another site has a browser send, as far as the headers show that.
    pub(crate) fn check_site(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        // Each of several fields is looked at. One page asks: a request with two origins is refused.
        let texts = |name: &str| headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
        let of_own_page = |origin: &str| {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
        };
        let origin_is_own = texts(ORIGIN.as_str()).all(of_own_page) && texts(ORIGIN.as_str()).count() <= 1;
        let site_is_own = texts("sec-fetch-site").all(|site| ["same-origin", "none"].contains(&site));
        if origin_is_own && site_is_own { Ok(()) } else { Err(Forbidden::CrossSite) }
    }
}

/// The token that a request shows. Two tokens are both ignored: the result is then an empty one, which is never valid.
pub(crate) fn shown_token(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let mut fields = headers.get_all(AUTHORIZATION).into_iter();
    let Some(field) = fields.next() else { return offered_token(headers) };
    if fields.next().is_some() {
        return Some(Cow::Borrowed(b""));
    }
    Some(Cow::Borrowed(field.as_bytes().strip_prefix(b"Bearer ")?.trim_ascii()))
}

fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |so_far, (one, other)| so_far | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        fields.iter().map(field).for_each(|(name, value)| _ = headers.append(name, value));
        headers
    }

    fn access(token: Option<&str>, address: &str) -> Access {
        let http = Http { hosts: vec!["Gateway.example".into()], ..Http::default() };
        let token = Arc::new(Token::from_pointee(token.map(str::to_owned)));
        Access::new(&http, [address.parse().unwrap()].into_iter(), token)
    }

    /// A client with these headers, without rules of access.
    fn asking(access: &Access, headers: &HeaderMap) -> Asking {
        let has_token = shown_token(headers).is_some_and(|shown| access.is_token(&shown));
        Asking { by: Principal::Service, has_token, has_right: None }
    }

    fn change(access: &Access, fields: &[(&'static str, &str)]) -> Result<(), Forbidden> {
        let headers = headers(fields);
        access.check_changing(&headers, &asking(access, &headers))
    }

    #[test]
    fn a_request_is_for_this_host_by_one_of_its_names_and_any_port() {
        let access = access(None, "192.0.2.7:80");
        for host in
            ["localhost", "LOCALHOST:2812", "127.0.0.1:1", "[::1]:80", "[::1]", "192.0.2.7", "gateway.EXAMPLE:9"]
        {
            assert_eq!(access.check_host(&Uri::from_static("/"), &headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "",
            "localhost:",
            "127.0.0.1.evil:80",
            "192.0.2.8",
            "localhost@x",
        ] {
            assert_eq!(
                access.check_host(&Uri::from_static("/"), &headers(&[("host", host)])),
                Err(Forbidden::Host),
                "{host}"
            );
        }
        assert_eq!(access.check_host(&Uri::from_static("/"), &headers(&[])), Err(Forbidden::Host));
        assert_eq!(
            access.check_host(&Uri::from_static("/"), &headers(&[("host", "localhost"), ("host", "localhost")])),
            Err(Forbidden::Host)
        );
    }

    /// A target in the absolute form that named another host was answered, whatever host that was; of two `Origin` fields only the first
    /// was looked at.
    #[test]
    fn a_target_of_another_host_and_a_second_field_are_refused() {
        let access = access(Some("0123456789abcdef"), "192.0.2.7:80");
        let own = headers(&[("host", "localhost")]);
        for (target, is_own) in [
            ("/metrics", true),
            ("http://localhost/metrics", true),
            ("http://192.0.2.7:80/metrics", true),
            ("http://evil.example/metrics", false),
            ("http://localhost@evil.example/metrics", false),
            ("http://evil.example@localhost/metrics", false),
            ("evil.example:80", false),
        ] {
            let came = access.check_host(&target.parse().unwrap(), &own);
            assert_eq!(came.is_ok(), is_own, "{target}");
        }
        let (host, token) = (("host", "localhost"), ("authorization", "Bearer 0123456789abcdef"));
        let (own, others) = (("origin", "http://localhost"), ("origin", "http://evil.example"));
        for (fields, outcome) in [
            (vec![host, token, own], Ok(())),
            (vec![host, token, own, others], Err(Forbidden::CrossSite)),
            (vec![host, token, others, own], Err(Forbidden::CrossSite)),
            (vec![host, token, own, own], Err(Forbidden::CrossSite)),
            (vec![host, token, token], Err(Forbidden::Token)),
            (
                vec![host, token, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
                Err(Forbidden::CrossSite),
            ),
        ] {
            assert_eq!(change(&access, &fields), outcome, "{fields:?}");
        }
    }

    #[test]
    fn a_websocket_is_for_pages_of_this_host_and_for_those_that_are_named() {
        let origins = vec!["https://Dash.example".into(), "http://10.0.0.7:8080".into()];
        let http = Http { origins, ..Http::default() };
        let address = "127.0.0.1:2812".parse().unwrap();
        let access = Access::new(&http, [address].into_iter(), Arc::default());
        let host = ("host", "localhost:2812");
        let of = |origin| ("origin", origin);
        for (fields, is_open) in [
            (vec![host], true),
            (vec![host, of("http://localhost:2812")], true),
            (vec![host, of("https://dash.example")], true),
            (vec![host, of("https://dash.example"), ("sec-fetch-site", "cross-site")], true),
            (vec![host, of("http://10.0.0.7:8080")], true),
            (vec![host, of("http://dash.example")], false),
            (vec![host, of("https://dash.example:8443")], false),
            (vec![host, of("https://dash.example.evil")], false),
            (vec![host, of("null")], false),
            (vec![host, of("https://dash.example"), of("https://dash.example")], false),
            (vec![host, of("https://dash.example"), of("https://evil.example")], false),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
        ] {
            let came = access.check_origin(&headers(&fields));
            assert_eq!(came, if is_open { Ok(()) } else { Err(Forbidden::Origin) }, "{fields:?}");
        }
        // It is for WebSockets only.
        assert_eq!(access.check_site(&headers(&[host, of("https://dash.example")])), Err(Forbidden::CrossSite));
        // A browser shows a token among the names of protocols.
        let shown = |offered| shown_token(&headers(&[("sec-websocket-protocol", offered)])).map(Cow::into_owned);
        assert_eq!(shown("campanile.json"), None);
        assert_eq!(shown("campanile.json, campanile.bearer.c2VjcmV0"), Some(b"secret".to_vec()));
        for wrong in
            ["campanile.bearer.c2V=", "campanile.bearer.c2VjcmV0, campanile.bearer.c2VjcmV0", "campanile.bearer."]
        {
            assert_eq!(shown(wrong), Some(Vec::new()), "{wrong}");
        }
    }

    #[test]
    fn what_changes_something_needs_the_token_and_a_page_of_this_host() {
        let (token, host) = ("0123456789abcdef", ("host", "localhost:2812"));
        let access = access(Some(token), "127.0.0.1:2812");
        let shown = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(change(&access, &[host, shown]), Ok(()));
        assert_eq!(change(&access, &[host, shown, ("origin", "http://localhost:2812")]), Ok(()));
        assert_eq!(change(&access, &[host]), Err(Forbidden::Token));
        for wrong in [
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcde",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(change(&access, &[host, ("authorization", wrong)]), Err(Forbidden::Token));
        }
        for origin in ["http://evil.example", "null", "http://localhost:2813", "http://localhost", "localhost:2812"] {
            assert_eq!(change(&access, &[host, shown, ("origin", origin)]), Err(Forbidden::CrossSite));
        }
        for site in ["cross-site", "same-site", ""] {
            assert_eq!(change(&access, &[host, shown, ("sec-fetch-site", site)]), Err(Forbidden::CrossSite));
        }
        let stranger = asking(&access, &headers(&[host]));
        assert_eq!(Access::check_reading(&stranger, false), Ok(()), "programs of this host may look");
    }

    #[test]
    fn without_a_token_nothing_can_be_changed_and_other_hosts_get_nothing() {
        let open = access(None, "127.0.0.1:2812");
        assert_eq!(change(&open, &[("authorization", "Bearer ")]), Err(Forbidden::ReadOnly));
        let closed = access(Some("0123456789abcdef"), "0.0.0.0:2812");
        let reading = |fields: &[(&'static str, &str)]| Access::check_reading(&asking(&closed, &headers(fields)), true);
        assert_eq!(reading(&[]), Err(Forbidden::Token));
        assert_eq!(reading(&[("authorization", "Bearer 0123456789abcdef")]), Ok(()));
    }

    #[test]
    fn where_there_are_rules_they_decide_but_not_for_a_page_of_another_site() {
        let (host, evil) = (("host", "localhost"), ("origin", "http://evil.example"));
        for token in [None, Some("0123456789abcdef")] {
            let access = access(token, "127.0.0.1:2812");
            let ruled = |has_right| Asking { by: Principal::Service, has_token: false, has_right: Some(has_right) };
            assert_eq!(access.check_changing(&headers(&[host]), &ruled(false)), Ok(()), "administration is asked");
            let crossed = access.check_changing(&headers(&[host, evil]), &ruled(true));
            assert_eq!(crossed, Err(Forbidden::CrossSite));
            assert_eq!(Access::check_reading(&ruled(true), true), Ok(()));
            assert_eq!(Access::check_reading(&ruled(false), true), Err(Forbidden::Token));
            assert_eq!(Access::check_reading(&ruled(false), false), Ok(()));
            // A token that no rule speaks of is one more stranger's.
            let shown = Asking { has_token: true, ..ruled(false) };
            assert_eq!(Access::check_reading(&shown, true), Err(Forbidden::Token));
        }
    }

    #[test]
    fn a_token_that_is_none_is_refused() {
        let path = std::env::temp_dir().join(format!("campanile-token-{}", std::process::id()));
        for (text, is_fit) in [
            ("", false),
            ("short\n", false),
            ("0123456789abcdef", true),
            ("0123456789abcde \n", false),
            ("0123456789 abcdef", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_token(&path).is_ok(), is_fit, "{text:?}");
        }
        fs::remove_file(&path).unwrap();
        assert!(read_token(&path).is_err());
    }
}
