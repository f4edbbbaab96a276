//! The record in etcd, by the JSON gateway of its API (version 3): two calls of HTTP/1.1, which every etcd since 3.4 answers at the port
//! of its clients. Its gRPC would bring some sixty crates for the same.

use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;

use data_encoding::BASE64;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::record::{Record, RecordStore, Swapped, Versioned};
use crate::config::{Config, EtcdEndpoint};
use crate::start::StartError;

/// Maximum octets of an answer, and of its headers.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Characters of an error's answer that are shown.
const SHOWN_MAX: usize = 200;

pub(crate) struct Etcd {
    /// Requests are sent by the thread that waits for them. `None` when it ends.
    runtime: Option<Runtime>,
    endpoints: Vec<EtcdEndpoint>,
    /// Index of the endpoint that is asked first.
    first: usize,
    tls: Option<TlsConnector>,
    connection: Option<SendRequest<String>>,
    /// In base64.
    key: String,
    /// Maximum time for a call, over all endpoints.
    within: Duration,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // A lookup of a name may hang.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    mod_revision: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Txn {
    header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<TxnResponse>,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct TxnResponse {
    response_range: Option<Range>,
}

impl Range {
    /// The key's value, if it is there.
    fn versioned(self) -> Result<Option<Versioned>, String> {
        let Some(KeyValue { mod_revision: version, value }) = self.kvs.into_iter().next() else { return Ok(None) };
        let octets = BASE64.decode(value.as_bytes()).map_err(|error| format!("etcd's answer: {error}"))?;
        let record = serde_json::from_slice(&octets)
            .map_err(|error| format!("what is at standby.record.key is no record: {error}"))?;
        Ok(Some(Versioned { record, version }))
    }
}

impl Etcd {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When the files of `[tls]` cannot be read, or there is no room for a runtime.
    pub(crate) fn new(config: &Config) -> Result<Self, StartError> {
        let record = &config.standby.record;
        let endpoints = record.endpoints()?;
        let tls = if endpoints.iter().any(|endpoint| endpoint.is_tls) {
            // The host's name is checked, whatever `tls.check_names` says.
            let ends = config.tls.read_mutual()?;
            ends.client.map(|client| TlsConnector::from(client.config()))
        } else {
            None
        };
        Ok(Self {
            runtime: Some(Builder::new_current_thread().enable_all().build()?),
            endpoints,
            first: 0,
            tls,
            connection: None,
            key: BASE64.encode(record.key.as_bytes()),
            within: record.lease() / 2,
        })
    }

    /// Sends a request to one endpoint after the other, until one answers.
    fn call<A: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<A, String> {
        let Self { runtime: Some(runtime), endpoints, first, tls, connection, within, .. } = self else {
            return Err("it has ended".to_owned());
        };
        let each = *within / u32::try_from(endpoints.len()).unwrap_or(1).max(1);
        let mut failed = "there is no endpoint".to_owned();
        for _ in 0..endpoints.len() {
            let Some(endpoint) = endpoints.get(*first) else { break };
            let asked = runtime.block_on(async {
                let asked = timeout(each, ask(connection, endpoint, tls.as_ref(), path, body.to_string())).await;
                asked.unwrap_or_else(|_| Err(format!("no answer within {} ms", each.as_millis())))
            });
            let answer = asked.and_then(|octets| serde_json::from_slice(&octets).map_err(|error| error.to_string()));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(why) => failed = format!("{}: {why}", endpoint.authority()),
            }
            *connection = None;
            *first = (*first + 1) % endpoints.len();
        }
        Err(failed)
    }
}

impl RecordStore for Etcd {
    fn read(&mut self) -> Result<Option<Versioned>, String> {
        // Without `serializable` a read is linearizable.
        let body = json!({ "key": self.key });
        self.call::<Range>("/v3/kv/range", &body)?.versioned()
    }

    fn swap(&mut self, expected: Option<&str>, record: &Record) -> Result<Swapped, String> {
        let value = serde_json::to_vec(record).map_err(|error| error.to_string())?;
        let (key, value) = (&self.key, BASE64.encode(&value));
        // A key that is not there has revision 0.
        let body = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expected.unwrap_or("0") }],
            "success": [{ "request_put": { "key": key, "value": value } }],
            "failure": [{ "request_range": { "key": key } }],
        });
        let Txn { header, succeeded, responses } = self.call("/v3/kv/txn", &body)?;
        if succeeded {
            return Ok(Swapped::Done(header.revision));
        }
        let found = responses.into_iter().find_map(|response| response.response_range);
        found.ok_or("etcd does not say what is there")?.versioned().map(Swapped::Other)
    }
}

/// Sends a request, on the connection there is or a new one. Returns the answer's body.
async fn ask(
    connection: &mut Option<SendRequest<String>>,
    endpoint: &EtcdEndpoint,
    tls: Option<&TlsConnector>,
    path: &str,
    body: String,
) -> Result<Vec<u8>, String> {
    fn text(error: impl ToString) -> String {
        error.to_string()
    }

    let mut sender = match connection.take().filter(|sender| !sender.is_closed()) {
        Some(sender) => sender,
        None => connect(endpoint, tls).await?,
    };
    sender.ready().await.map_err(text)?;
    let request = Request::post(path).header(HOST, endpoint.authority()).header(CONTENT_TYPE, "application/json");
    let answer = sender.send_request(request.body(body).map_err(text)?).await.map_err(text)?;
    let status = answer.status();
    let octets = read(answer.into_body()).await?;
    if status != StatusCode::OK {
        let why: String = String::from_utf8_lossy(&octets).chars().take(SHOWN_MAX).collect();
        return Err(format!("{status}: {}", why.replace(char::is_control, " ")));
    }
    *connection = Some(sender);
    Ok(octets)
}

async fn connect(endpoint: &EtcdEndpoint, tls: Option<&TlsConnector>) -> Result<SendRequest<String>, String> {
    let tcp = TcpStream::connect((&*endpoint.host, endpoint.port)).await.map_err(|error| error.to_string())?;
    tcp.set_nodelay(true).map_err(|error| error.to_string())?;
    if !endpoint.is_tls {
        return begin(tcp).await;
    }
    let connector = tls.ok_or("[tls] has no certificate for this end")?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
    begin(connector.connect(name, tcp).await.map_err(|error| error.to_string())?).await
}

async fn begin(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<SendRequest<String>, String> {
    let begun = http1::Builder::new().max_buf_size(ANSWER_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(|error| error.to_string())?;
    // It goes on whenever a request is waited for, and ends with the sender. Its error is the request's, too.
    drop(tokio::spawn(connection));
    Ok(sender)
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| error.to_string())?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if octets.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(format!("its answer is longer than {ANSWER_BYTES_MAX} octets"));
        }
        octets.extend_from_slice(data);
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::thread;

    use super::*;

    /// A member that answers every request with the same octets, or, without any, not at all.
    fn member(answer: impl Into<Vec<u8>>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), answer.into());
        // Ends with the test's process.
        thread::spawn(move || {
            let mut mute = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if answer.is_empty() {
                    mute.push(stream);
                    continue;
                }
                let _ = stream.read(&mut [0; 4_096]);
                let _ = stream.write_all(&answer);
            }
        });
        address
    }

    fn http(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn etcd(members: &[SocketAddr]) -> Etcd {
        let mut config = Config::default();
        config.standby.record.etcd = members.iter().map(|member| format!("http://{member}")).collect();
        // A member has so long that no stall counts.
        config.standby.record.lease_ms = 60_000;
        Etcd::new(&config).unwrap()
    }

    fn range(record: &str) -> String {
        let value = BASE64.encode(record.as_bytes());
        http("200 OK", &format!(r#"{{"header":{{"revision":"9"}},"kvs":[{{"mod_revision":"7","value":"{value}"}}]}}"#))
    }

    const RECORD: &str =
        r#"{"service":1,"epoch":2,"holder":"h","machine":3,"run":4,"counter":5,"in_step":null,"more":6}"#;

    #[test]
    fn a_member_that_answers_is_found_behind_those_that_do_not() {
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let failing = member(http("503 Service Unavailable", "no leader"));
        let found = etcd(&[gone, failing, member(range(RECORD))]).read().unwrap().unwrap();
        assert_eq!((found.version.as_str(), found.record.epoch, found.record.in_step), ("7", 2, None));
        assert_eq!(etcd(&[member(http("200 OK", r#"{"header":{"revision":"9"}}"#))]).read(), Ok(None));
        let mut etcd =
            etcd(&[member(http("200 OK", r#"{"header":{"revision":"9"},"succeeded":true,"responses":[]}"#))]);
        assert_eq!(etcd.swap(Some("7"), &found.record), Ok(Swapped::Done("9".to_owned())));
    }

    #[test]
    fn an_answer_that_is_too_long_or_none_is_an_error_and_a_mute_member_is_not_waited_for() {
        let why = |answer: String| etcd(&[member(answer)]).read().unwrap_err();
        assert!(why(http("503 Service Unavailable", "no leader")).contains("no leader"));
        assert!(why(http("200 OK", &"x".repeat(ANSWER_BYTES_MAX + 1))).contains("longer than 65536 octets"));
        assert!(!why(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(ANSWER_BYTES_MAX))).is_empty());
        assert!(why(http("200 OK", "7")).contains("expected"));
        assert!(why(range("{}")).contains("is no record"));
        let mut mute = etcd(&[member("")]);
        mute.within = Duration::from_millis(50);
        assert!(mute.read().unwrap_err().contains("no answer within 50 ms"));
    }
}
