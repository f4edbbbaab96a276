//! Errors in files and of peers, in words for the person that can correct them.

use core::fmt;
use std::io;
use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Why certificates, keys or lists of revoked certificates cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read, or has the wrong content.
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The files do not match each other.
    Together {
        /// The problem.
        why: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Together { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for LoadError {}

/// Why TLS with a peer failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The peer's certificate is not accepted, or is missing where one is required.
    Certificate(String),
    /// The peer does not accept our certificate, or ended the handshake for another reason.
    Refused(String),
    /// The peer does not speak TLS.
    NotTls,
    /// The peer violates the TLS protocol.
    Protocol(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(why) | Self::Refused(why) | Self::Protocol(why) => f.write_str(why),
            Self::NotTls => f.write_str("it does not speak TLS"),
        }
    }
}

impl std::error::Error for Trouble {}

impl Trouble {
    /// The TLS error in an I/O error of a rustls stream; `None` if the connection failed.
    #[must_use]
    pub fn of_stream(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Error>().cloned().map(Self::from)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidCertificate(why) => Self::Certificate(wrong_certificate(&why)),
            Error::NoCertificatesPresented => Self::Certificate("it presented no certificate, and has to".into()),
            Error::AlertReceived(alert) => Self::Refused(refused(alert)),
            Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
                Self::Protocol("there is no signature algorithm that both know".into())
            }
            Error::PeerIncompatible(why) => {
                Self::Protocol(format!("there is no version or cipher that both know ({why:?})"))
            }
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::NotTls
            }
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// The problem of a certificate, phrased for its owner.
fn wrong_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks".into()
        }
        CertificateError::Revoked => "its certificate is revoked".into(),
        CertificateError::UnknownIssuer => {
            "its certificate is signed by none of the authorities that are trusted here, or by itself".into()
        }
        CertificateError::UnknownRevocationStatus => {
            "no list of revoked certificates speaks for the authority that signed its certificate".into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            format!("its certificate is not for the host {}, but for {}", expected.to_str(), presented.join(", "))
        }
        CertificateError::NotValidForName => "its certificate is for another host".into(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for this side of a connection (extended key usage)".into()
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}

/// The meaning of an alert from the peer.
fn refused(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "it does not trust the authority that signed our certificate".into(),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => format!("it does not accept our certificate ({alert:?})"),
        AlertDescription::CertificateExpired => "it says that our certificate has expired".into(),
        AlertDescription::CertificateRevoked => "it says that our certificate is revoked".into(),
        AlertDescription::CertificateRequired => "it asks for a certificate, and there is none here".into(),
        other => format!("it ended the connection with the alert {other:?}"),
    }
}
