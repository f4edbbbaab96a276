//! The header that is kept is the one that the sources make, and all packages have one version.

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_make() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for module in ["status", "settings", "types", "supplier", "publisher", "event", "trouble", "consumer", "log"] {
        builder = builder.with_src(here.join("src").join(module).with_extension("rs"));
    }
    builder = builder.with_src(here.join("../campanile/src/error.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let kept = here.join("include/campanile.h");
    if std::env::var_os("CAMPANILE_WRITE_HEADER").is_some() {
        std::fs::write(&kept, &made).unwrap();
    }
    let kept = std::fs::read(&kept).unwrap_or_default();
    assert!(
        kept == made,
        "the sources make another header: CAMPANILE_WRITE_HEADER=1 cargo test -p campanile-ffi --test header writes it"
    );
}

#[test]
fn the_artifact_for_java_has_the_version_of_the_crate() {
    let pom = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("java/pom.xml")).unwrap();
    let version = concat!("<version>", env!("CARGO_PKG_VERSION"), "</version>");
    assert!(
        pom.contains(&format!("<artifactId>campanile</artifactId>\n  {version}")),
        "{version} is not the artifact's"
    );
}
