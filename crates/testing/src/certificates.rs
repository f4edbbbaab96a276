//! Certificates for tests, made at run time: an authority, signed certificates and revocation lists, as PEM files.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// An authority with its own folder, which is removed on drop.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of a certificate and its key.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    serial: u64,
}

/// The contents of a certificate.
#[derive(Debug, Clone, Copy)]
pub struct CertificateSpec<'a> {
    /// The common name of the subject; the organization is `Tests`.
    pub name: &'a str,
    /// Host names and addresses.
    pub hosts: &'a [&'a str],
    /// Whether it has expired.
    pub expired: bool,
    /// Whether the certificate is self-signed.
    pub by_itself: bool,
}

impl Default for CertificateSpec<'_> {
    fn default() -> Self {
        Self { name: "somebody", hosts: &["localhost", "127.0.0.1"], expired: false, by_itself: false }
    }
}

impl Authority {
    /// An authority of that name, with its files in a folder of that name beneath the system's temporary one.
    ///
    /// # Panics
    /// The files cannot be written.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("campanile-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for certificates");
        let mut params = params(&CertificateSpec { name, hosts: &[], ..CertificateSpec::default() }, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        std::fs::write(folder.join("authority.pem"), issuer.pem()).expect("a file for the authority");
        Self { folder, issuer }
    }

    /// The file with its own certificate.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The folder with its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Signs a certificate with that common name, for this host.
    #[must_use]
    pub fn certify(&self, name: &str) -> Certified {
        self.certify_as(&CertificateSpec { name, ..CertificateSpec::default() })
    }

    /// Signs a certificate with those contents. Files of the same name are replaced.
    ///
    /// # Panics
    /// The files cannot be written.
    #[must_use]
    pub fn certify_as(&self, spec: &CertificateSpec<'_>) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let serial = spec.name.bytes().fold(7, |serial: u64, octet| serial.wrapping_mul(31) + u64::from(octet)) >> 1;
        let params = params(spec, serial);
        let signed = if spec.by_itself { params.self_signed(&key) } else { params.signed_by(&key, &self.issuer) };
        let file = |kind| self.folder.join(format!("{}.{kind}.pem", spec.name.replace(['/', ' '], "_")));
        let certified = Certified { certificate: file("certificate"), key: file("key"), serial };
        std::fs::write(&certified.certificate, signed.expect("a certificate").pem()).expect("a file for it");
        std::fs::write(&certified.key, key.serialize_pem()).expect("a file for its key");
        certified
    }

    /// Writes the list of revoked certificates, which replaces the previous one.
    ///
    /// # Panics
    /// The file cannot be written.
    #[must_use]
    pub fn revoke(&self, revoked: &[&Certified]) -> PathBuf {
        let entry = |certified: &&Certified| RevokedCertParams {
            serial_number: SerialNumber::from(certified.serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.folder.join("revoked.pem");
        let list = list.signed_by(&self.issuer).expect("a list of revoked certificates");
        std::fs::write(&file, list.pem().expect("it in PEM")).expect("a file for it");
        file
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn params(spec: &CertificateSpec<'_>, serial: u64) -> CertificateParams {
    let hosts: Vec<String> = spec.hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("hosts for a certificate");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Tests");
    params.distinguished_name.push(DnType::CommonName, spec.name);
    params.serial_number = Some(SerialNumber::from(serial));
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = if spec.expired { date_time_ymd(2021, 1, 1) } else { date_time_ymd(2100, 1, 1) };
    params
}
