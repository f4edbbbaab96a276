//! The header that is kept is the one that the sources make.

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_make() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config).with_src(here.join("src/edge/abi.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let kept = here.join("include/campanile_component.h");
    if std::env::var_os("CAMPANILE_WRITE_HEADER").is_some() {
        std::fs::write(&kept, &made).unwrap();
    }
    assert!(
        std::fs::read(&kept).unwrap_or_default() == made,
        "the sources make another header: CAMPANILE_WRITE_HEADER=1 cargo test -p campanile-component --test all header writes it"
    );
}
