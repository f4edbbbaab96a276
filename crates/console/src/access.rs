//! Who may ask what: by which name this host is called, whether the token was shown, and from whose page.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use service::Http;

use crate::ConsoleError;

/// What is allowed.
#[derive(Debug)]
pub(crate) struct Access {
    /// By which names, lower case and without ports, this host may be called.
    hosts: Vec<String>,
    token: Option<String>,
    /// Everything needs the token, since others than programs of this host can connect.
    is_closed: bool,
    /// Events need the token, since there are rules for who may have which: to these, whoever watches is the service itself.
    guards_events: bool,
}

/// Why something is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// It was sent to another host's name, or to none.
    Host,
    /// It came from a page of another site.
    CrossSite,
    /// The token is missing or wrong.
    Token,
    /// There is no token that would allow it.
    ReadOnly,
}

impl Access {
    pub(crate) fn new(http: &Http, address: SocketAddr, has_rules: bool) -> Result<Self, ConsoleError> {
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), host_of(address.ip())];
        let hosts = own.into_iter().chain(http.hosts.iter().map(|host| host.to_ascii_lowercase())).collect();
        let token = http.token_file.as_deref().map(|path| {
            let failed = |why: String| ConsoleError::Token { path: path.to_owned(), why };
            let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
            let token = text.lines().next().unwrap_or_default().trim();
            let is_fit = (16..=256).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
            let why = "its first line is to have 16 to 256 visible characters of ASCII, for example what `openssl rand -hex 32` prints";
            if is_fit { Ok(token.to_owned()) } else { Err(failed(why.to_owned())) }
        });
        Ok(Self { hosts, token: token.transpose()?, is_closed: !address.ip().is_loopback(), guards_events: has_rules })
    }

    /// Whether there is a token.
    pub(crate) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether everything needs it.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether a request was sent to this host: a name that another site's owner has lead here says otherwise.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        let mut hosts = headers.get_all(HOST).into_iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Forbidden::Host) };
        let is_own = host.to_str().is_ok_and(|host| self.is_own(host));
        if is_own { Ok(()) } else { Err(Forbidden::Host) }
    }

    fn is_own(&self, authority: &str) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        self.hosts.contains(&host)
    }

    /// Whether the token was shown.
    pub(crate) fn shows_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        let (Some(token), Some(given)) = (&self.token, given) else { return false };
        is_same(token.as_bytes(), given.trim().as_bytes())
    }

    /// Whether something may be told.
    pub(crate) fn check_reading(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        if self.is_closed && !self.shows_token(headers) { Err(Forbidden::Token) } else { Ok(()) }
    }

    /// Whether a channel's events may be watched.
    pub(crate) fn check_watching(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        if self.guards_events && !self.shows_token(headers) {
            Err(Forbidden::Token)
        } else {
            self.check_reading(headers)
        }
    }

    /// Whether something may be changed: never by a page of another site, whatever it knows.
    pub(crate) fn check_changing(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        if self.token.is_none() {
            return Err(Forbidden::ReadOnly);
        }
        self.check_site(headers)?;
        if self.shows_token(headers) { Ok(()) } else { Err(Forbidden::Token) }
    }

    /// Whether a page of another site has a browser ask, as far as that says so.
    pub(crate) fn check_site(&self, headers: &HeaderMap) -> Result<(), Forbidden> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let of_own_page = |origin: &str| {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
        };
        let origin_is_own = text(ORIGIN.as_str()).is_none_or(of_own_page);
        let site_is_own = text("sec-fetch-site").is_none_or(|site| ["same-origin", "none"].contains(&site));
        if origin_is_own && site_is_own { Ok(()) } else { Err(Forbidden::CrossSite) }
    }
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

/// Takes as long wherever the first difference is.
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
        let access = Access::new(&http, address.parse().unwrap(), false).unwrap();
        Access { token: token.map(str::to_owned), ..access }
    }

    #[test]
    fn a_request_is_for_this_host_by_one_of_its_names_and_any_port() {
        let access = access(None, "192.0.2.7:80");
        for host in
            ["localhost", "LOCALHOST:2812", "127.0.0.1:1", "[::1]:80", "[::1]", "192.0.2.7", "gateway.EXAMPLE:9"]
        {
            assert_eq!(access.check_host(&headers(&[("host", host)])), Ok(()), "{host}");
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
            assert_eq!(access.check_host(&headers(&[("host", host)])), Err(Forbidden::Host), "{host}");
        }
        assert_eq!(access.check_host(&headers(&[])), Err(Forbidden::Host));
        assert_eq!(access.check_host(&headers(&[("host", "localhost"), ("host", "localhost")])), Err(Forbidden::Host));
    }

    #[test]
    fn what_changes_something_needs_the_token_and_a_page_of_this_host() {
        let (token, host) = ("0123456789abcdef", ("host", "localhost:2812"));
        let access = access(Some(token), "127.0.0.1:2812");
        let shown = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(access.check_changing(&headers(&[host, shown])), Ok(()));
        assert_eq!(access.check_changing(&headers(&[host, shown, ("origin", "http://localhost:2812")])), Ok(()));
        assert_eq!(access.check_changing(&headers(&[host])), Err(Forbidden::Token));
        for wrong in [
            "Bearer 0123456789abcdeg",
            "Bearer 0123456789abcde",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(access.check_changing(&headers(&[host, ("authorization", wrong)])), Err(Forbidden::Token));
        }
        for origin in ["http://evil.example", "null", "http://localhost:2813", "http://localhost", "localhost:2812"] {
            assert_eq!(access.check_changing(&headers(&[host, shown, ("origin", origin)])), Err(Forbidden::CrossSite));
        }
        for site in ["cross-site", "same-site", ""] {
            assert_eq!(
                access.check_changing(&headers(&[host, shown, ("sec-fetch-site", site)])),
                Err(Forbidden::CrossSite)
            );
        }
        assert_eq!(access.check_reading(&headers(&[host])), Ok(()), "programs of this host may look");
    }

    #[test]
    fn without_a_token_nothing_can_be_changed_and_other_hosts_are_told_nothing() {
        let open = access(None, "127.0.0.1:2812");
        assert_eq!(open.check_changing(&headers(&[("authorization", "Bearer ")])), Err(Forbidden::ReadOnly));
        let closed = access(Some("0123456789abcdef"), "0.0.0.0:2812");
        assert_eq!(closed.check_reading(&headers(&[])), Err(Forbidden::Token));
        assert_eq!(closed.check_reading(&headers(&[("authorization", "Bearer 0123456789abcdef")])), Ok(()));
    }

    #[test]
    fn where_there_are_rules_events_need_the_token_on_this_host_too() {
        let token = "0123456789abcdef";
        let open = access(Some(token), "127.0.0.1:2812");
        assert!(open.check_watching(&headers(&[])).is_ok());
        let guarded = Access { guards_events: true, ..open };
        assert!(guarded.check_reading(&headers(&[])).is_ok());
        assert!(matches!(guarded.check_watching(&headers(&[])), Err(Forbidden::Token)));
        let shown = format!("Bearer {token}");
        assert!(guarded.check_watching(&headers(&[("authorization", &shown)])).is_ok());
        let without = Access { token: None, ..guarded };
        assert!(without.check_watching(&headers(&[("authorization", &shown)])).is_err());
    }

    #[test]
    fn a_token_that_is_none_is_refused() {
        let path = std::env::temp_dir().join(format!("campanile-token-{}", std::process::id()));
        let http = Http { token_file: Some(path.clone()), ..Http::default() };
        for (text, is_fit) in [
            ("", false),
            ("short\n", false),
            ("0123456789abcdef", true),
            ("0123456789abcde \n", false),
            ("0123456789 abcdef", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(Access::new(&http, "127.0.0.1:1".parse().unwrap(), false).is_ok(), is_fit, "{text:?}");
        }
        fs::remove_file(&path).unwrap();
        assert!(Access::new(&http, "127.0.0.1:1".parse().unwrap(), false).is_err());
    }
}
