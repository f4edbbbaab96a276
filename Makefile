# `make run` shows the service at work, `make test` checks everything, `make install` has systemd run it.
CARGO ?= cargo
CAMPANILE := target/release/campanile
# What other languages load, and how JNA calls this platform.
LIBRARY := target/library/libcampanile_ffi.so
LIBRARY_FEATURES ?=
JAVA_PLATFORM := linux-$(subst x86_64,x86-64,$(shell uname -m))
CAMPANILE_BENCH := target/release/campanile-bench
# Named in the reports of `campanile-bench`.
export CAMPANILE_COMMIT := $(shell git describe --always --dirty 2>/dev/null)

# Where `make install` puts the program and the units for systemd.
PREFIX ?= /usr/local
UNITS ?= /etc/systemd/system
# What makes the Debian package, in a folder of its own.
CARGO_DEB := target/cargo-deb-3.6.2/bin/cargo-deb

.PHONY: library run test check build lab lab-with-zenoh build-with-dds build-with-zenoh test-zenoh soak static install deb try-deb container install-cpp java-package wheel dist \
	install-test-tools bench fuzz clean

# A small observatory through a service of its own, with the console, until Ctrl-C. Other ports than 2809 and 2812:
# make run LISTEN=127.0.0.1:2810 HTTP=8080
run: build
	$(CAMPANILE) demo $(if $(LISTEN),--listen $(LISTEN)) $(if $(HTTP),--http $(HTTP))

# The service with its tools (`campanile`).
build:
	$(CARGO) build --release --locked -p campanile-cli
	@packaging/strip.sh $(CAMPANILE)

# What measures it (`campanile-bench`, see lab/README.md): built apart, so that the program that it measures is as it is installed.
lab: build
	$(CARGO) build --release --locked -p campanile-bench

# Both with Zenoh.
lab-with-zenoh: build-with-zenoh
	$(CARGO) build --release --locked -p campanile-bench --features zenoh

# The same service, which can join channels to DDS: needs a C and a C++ compiler and CMake.
build-with-dds:
	$(CARGO) build --release --locked -p campanile-cli --features dds
	@packaging/strip.sh $(CAMPANILE)

# The same service without DDS, which can make links through Zenoh: some 200 more crates to build.
build-with-zenoh:
	$(CARGO) build --release --locked -p campanile-cli --features zenoh
	@packaging/strip.sh $(CAMPANILE)

# The service for systemd (without DDS: make build, then `make -o build-with-dds install`); then: systemctl daemon-reload, systemctl enable
# --now campanile.socket
install: build-with-dds
	packaging/stage.sh $(CAMPANILE) target/stage $(PREFIX)/bin
	install -D -m 755 $(CAMPANILE) $(DESTDIR)$(PREFIX)/bin/campanile
	install -d $(DESTDIR)$(UNITS) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 target/stage/units/* $(DESTDIR)$(UNITS)
	install -m 644 target/stage/man/* $(DESTDIR)$(PREFIX)/share/man/man1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bash-completion/completions target/stage/completions/campanile
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions target/stage/completions/_campanile
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d target/stage/completions/campanile.fish
	[ -e $(DESTDIR)/etc/campanile/campanile.toml ] || install -D -m 644 -t $(DESTDIR)/etc/campanile config/campanile.toml
	[ -e $(DESTDIR)/etc/campanile/node.toml ] || install -D -m 644 -t $(DESTDIR)/etc/campanile config/node.toml

# The Debian package: target/debian/campanile_VERSION_ARCHITECTURE.deb, and one with what debuggers need beside it. Needs Python 3, too.
# Stripped files have none of that: Cargo puts the program there once more as it was linked, and cargo-deb takes it apart in copies.
deb: build-with-dds $(CARGO_DEB)
	$(CARGO) build --release --locked --quiet -p campanile-cli --features dds
	packaging/stage.sh $(CAMPANILE) target/stage /usr/bin campanile
	packaging/third-party.py campanile-cli --features dds | gzip -9n > target/stage/third-party.gz
	$(CARGO_DEB) -p campanile-cli --no-build --locked --dbgsym --quiet
	@ls target/debian/*.deb target/debian/*.ddeb

$(CARGO_DEB):
	$(CARGO) install --locked --version 3.6.2 --root $(CARGO_DEB:/bin/cargo-deb=) cargo-deb

# The package in a fresh Debian with systemd: installed, used, upgraded, removed, purged. Needs root, debootstrap and systemd-container.
try-deb:
	packaging/debian/try.sh

# The service with its tools in one file that needs no library of the system's: target/MACHINE-unknown-linux-musl/release/campanile. Without
# DDS. Needs rustup target add MACHINE-unknown-linux-musl, and musl-gcc (Debian: musl-tools).
STATIC_TARGET ?= $(shell uname -m)-unknown-linux-musl
static:
	$(CARGO) build --release --locked --target $(STATIC_TARGET) -p campanile-cli

# The image `campanile`, with that in it and nothing else, by podman, buildah or docker, whichever is there.
CONTAINER ?= $(firstword $(shell for tool in podman buildah; do command -v $$tool; done) docker)
container: static
	rm -rf target/container
	install -D -s -m 755 -t target/container target/$(STATIC_TARGET)/release/campanile
	install -d target/container/state
	install -m 644 LICENSE-APACHE LICENSE-MIT target/container
	{ packaging/third-party.py campanile-cli; cat /usr/share/doc/musl/copyright; } | gzip -9n > target/container/third-party.gz
	BUILDAH_FORMAT=docker $(CONTAINER) build -t campanile -f packaging/container/Containerfile target/container

# Licences of what others have written of it.
target/third-party.txt: Cargo.lock
	packaging/third-party.py campanile-cli -p campanile-ffi -p campanile-python \
		--features campanile-cli/dds,campanile-ffi/dds,campanile-python/dds > $@.new
	mv $@.new $@

# Campanile for Python with the command `campanile`, as a wheel for CPython 3.11 and later: target/wheels/campanile-*.whl; then:
# pip install target/wheels/campanile-*.whl. Without DDS: make build, then make -o build-with-dds wheel WHEEL_FEATURES=
WHEELS := target/wheels
WHEEL_FEATURES ?= --features dds
wheel: build-with-dds target/third-party.txt
	$(CARGO) rustc --profile library --locked -p campanile-python --lib --crate-type cdylib $(WHEEL_FEATURES)
	@packaging/strip.sh target/library/lib_native.so
	crates/python/wheels.py $(CAMPANILE) target/library/lib_native.so $(WHEELS) target/third-party.txt

# What those install who have no toolchain: the wheel, and an archive of program, libraries for C and C++, manual and documents. The tests
# pack what they have built themselves (crates/cli/tests/command/packages.rs), by the same wheels.py and dist.sh.
dist: WHEELS := target/dist
dist: LIBRARY_FEATURES := dds
dist: wheel library
	@packaging/strip.sh $(LIBRARY)
	packaging/dist.sh $(CAMPANILE) $(LIBRARY) $$(rustc -vV | sed -n 's/^host: //p') target/dist target/third-party.txt

# The library for C and C++: libcampanile.so, headers, CMake's package, pkg-config's file.
install-cpp: library
	crates/ffi/install.sh $(LIBRARY) $(PREFIX)
	$(if $(DESTDIR),,-ldconfig)

# The artifact for Java, with the library inside: target/java/campanile-VERSION.jar, and in the local Maven repository.
java-package: library
	install -D -m 644 $(LIBRARY) target/java/native/$(JAVA_PLATFORM)/libcampanile.so
	mvn -q -B -f crates/ffi/java install
	cp target/java/maven/campanile-*.jar target/java/

# Of all that the crate can be built as only the library, so that the whole is optimised together. LIBRARY_FEATURES=dds adds DDS, which
# needs CMake and a C compiler.
library:
	$(CARGO) rustc --profile library --locked -p campanile-ffi --lib --crate-type cdylib \
		$(if $(LIBRARY_FEATURES),--features $(LIBRARY_FEATURES))

# In C on both transports, consumers and suppliers that come and go for half an hour under the address sanitizer: of Rust, which takes
# RUSTC_BOOTSTRAP where it is not nightly, and of gcc, also in Cyclone DDS. SOAK=--quick: half a minute.
SOAK ?=
SANITIZED_TARGET := $(shell uname -m)-unknown-linux-gnu
soak: lab
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CFLAGS_$(subst -,_,$(SANITIZED_TARGET))=-fsanitize=address \
		CXXFLAGS_$(subst -,_,$(SANITIZED_TARGET))=-fsanitize=address \
		$(CARGO) rustc --locked -p campanile-ffi --lib --crate-type cdylib --features dds --target $(SANITIZED_TARGET) --target-dir target/asan
	$(CAMPANILE_BENCH) soak --sanitize address --library target/asan/$(SANITIZED_TARGET)/debug/libcampanile_ffi.so $(SOAK)

# Everything is tested with DDS, in one build; `make build` and `make run` are without, and take Rust only.
WITH_DDS := --features campanile-cli/dds

# Install what the tests need (omniORB, JacORB, JNA, CMake, the tools of Cyclone DDS and of Python), then run them all.
# Tests wait for sockets, disks and other programs most of the time, so more of them run at once than there are processors.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test: install-test-tools check
	$(CARGO) test --locked --workspace --exclude campanile-zenoh $(WITH_DDS)

# Links through Zenoh, apart from the others: its crates take minutes to build.
test-zenoh: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test-zenoh:
	$(CARGO) clippy --locked -p campanile-zenoh -p campanile-service --features campanile-service/zenoh --all-targets -- -D warnings
	$(CARGO) test --locked -p campanile-zenoh
	$(CARGO) test --locked -p campanile-service --features zenoh --test all link
	$(CARGO) test --locked -p campanile-service --features zenoh --lib config
	$(CARGO) build --locked -p campanile-cli --features zenoh
	$(CARGO) clippy --locked -p campanile-bench --features zenoh --all-targets -- -D warnings
	$(CARGO) test --locked -p campanile-bench --features zenoh -- links federation

# Formatting, lints, and bounds of size and language (lab/house.py), the same here and in CI. Needs Python 3.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --exclude campanile-zenoh --all-targets $(WITH_DDS) -- -D warnings
	lab/house.py --check
	python3 -m unittest discover -q -s lab

install-test-tools:
	interop/install.sh

# Campanile beside floors and peers, which this installs: about an hour. Writes docs/performance/ and lab/results; see
# lab/README.md. Needs Python 3. Fails, when all is written, if an aim was missed.
bench: lab install-test-tools
	lab/peers/install.sh
	$(CAMPANILE_BENCH) performance --results lab/results; shown=$$?; lab/pages.py performance && exit $$shown

# Each parser fuzzed for a minute (needs nightly Rust and cargo-fuzz).
fuzz:
	cd fuzz && for target in $$(cargo +nightly fuzz list); do cargo +nightly fuzz run $$target -- -max_total_time=60 || exit 1; done

clean:
	$(CARGO) clean
