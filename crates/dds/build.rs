//! Builds Cyclone DDS from the sources in `cyclonedds-src`, as a static library without what is not used here (its IDL compiler, its
//! tools, security, shared memory), and the functions in C that lie between it and `src/raw.rs`.

use std::path::Path;

fn main() {
    let sources = cyclonedds_src::source_dir();
    let built = cmake::Config::new(&sources)
        .profile("Release") // the same code in debug builds: what is debugged is ours
        .define("BUILD_SHARED_LIBS", "OFF")
        .define("BUILD_IDLC", "OFF")
        .define("BUILD_DDSPERF", "OFF")
        .define("BUILD_TESTING", "OFF")
        .define("BUILD_EXAMPLES", "OFF")
        .define("BUILD_DOCS", "OFF")
        .define("ENABLE_SSL", "OFF")
        .define("ENABLE_SECURITY", "OFF")
        .define("ENABLE_ICEORYX", "OFF")
        .define("ENABLE_LTO", "OFF")
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .build();
    let include = built.join("include");
    cc::Build::new()
        .std("gnu11")
        .warnings_into_errors(false)
        .include(&include)
        // What it knows of a writer's readers, for which it has no interface. Its types are as it was built with: without assertions.
        .include(sources.join("src/core/ddsi/src"))
        .define("NDEBUG", None)
        .file("shim/shim.c")
        .file("shim/types.c")
        .compile("campanile_ddsc_shim");
    for file in ["shim/shim.h", "shim/shim.c", "shim/types.c"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-search=native={}", Path::new(&built).join("lib").display());
    println!("cargo::rustc-link-lib=static=ddsc");
    println!("cargo::rustc-link-lib=dylib=dl");
}
