#!/usr/bin/env bash
# Builds real programs with failsketch-cc and failsketch-c++, registers them, and
# requires of each: the code of clang-19 -g, a proof of every module, and the same
# results in a quick smoke use of the deployed binary.
#
# Why -g: clang-19 itself does not always make the same code with and without it.
# With -g every loop carries its location as metadata, and some loops are then
# simplified otherwise (2 functions of SQLite at -O2). The wrapper adds -g, so its
# code is that of clang-19 -g.
#
# Usage: bugbase/real-programs.sh [PROGRAM...]     (default: all of them)
#        bugbase/real-programs.sh --variant PROGRAM NAME [--recipe FILE] [--binary FILE]
#                                 [--register] [PATCH...]
# Programs: pbzip2 memcached curl sqlite3 cppcheck
#
# --variant makes a build of one program beside those: its source with patches, or
# with another compiler, and prints the binary's path and what --register deployed.
# NAME is "tsan" or "functions" for clang-19's instrumentations of those names; any
# other name is a build by the wrapper. Where the unpatched program was built by the
# same compiler already, only what the patches touch is compiled again.
#
# Sources are Debian's source packages, fetched from wherever this machine's own
# apt sources point: apt runs on copies of them under target/, with "deb-src" for
# "deb", so the system's configuration is neither changed nor relied on. What the
# builds need is installed by package name, if it is not there yet.
# FAILSKETCH may name the failsketch command; otherwise it is built with cargo.
# REAL_PROGRAMS may name the folder that holds everything (target/real-programs).
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
cargo_target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
cache=$(realpath -m "${REAL_PROGRAMS:-$cargo_target/real-programs}")
mkdir -p "$cache"
all_programs="pbzip2 memcached curl sqlite3 cppcheck"
jobs=$(nproc)

# ---- what is particular to each program: packages, build, binary, smoke use ----
# NAME_configure (if there is one) and NAME_make run in the unpacked source with CC
# and CXX set and make NAME_binary; NAME_make may run again when sources changed.
# NAME_smoke BINARY runs in an empty folder; what it prints must not depend on the build.

pbzip2_packages="libbz2-dev"
pbzip2_binary=pbzip2
pbzip2_make() {
    # clang-19 reads PRIuMAX after a string as a literal suffix, hence the flag.
    make CXX="$CXX" CXXFLAGS="-O2 -pthread -D_POSIX_PTHREAD_SEMANTICS -Wno-reserved-user-defined-literal" pbzip2
}
pbzip2_smoke() {
    seq 1 400000 > numbers
    "$1" -p4 -b2 -k -c numbers > numbers.bz2
    sha256sum < numbers.bz2
    "$1" -d -p4 -c numbers.bz2 | cmp - numbers && echo "round trip"
    "$1" -t numbers.bz2 && echo "test passed"
}

memcached_packages="libevent-dev"
memcached_binary=memcached
memcached_configure() { ./configure CFLAGS="-O2" --disable-docs; }
memcached_make() {
    make -j"$jobs" memcached
}
memcached_smoke() {
    local user=() server port reply
    [ "$(id -u)" = 0 ] && user=(-u root)
    # Port -1 lets the kernel choose one; memcached writes it into the file.
    MEMCACHED_PORT_FILENAME=$PWD/port "$1" -l 127.0.0.1 -p -1 -t 4 "${user[@]}" & server=$!
    for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
    port=$(sed -n 's/^TCP INET: //p' port)
    exec 3<> "/dev/tcp/127.0.0.1/$port"
    printf 'set a 0 0 5\r\nhello\r\nset n 0 0 2\r\n41\r\nincr n 1\r\nget a n\r\ndelete a\r\nget a\r\nquit\r\n' >&3
    reply=$(cat <&3)
    exec 3>&-
    kill "$server"
    wait "$server" || true
    printf '%s\n' "$reply"
}

curl_packages=""
curl_binary=src/curl
curl_configure() {
    ./configure CFLAGS="-O2" --disable-shared --enable-static --disable-manual --disable-ldap \
        --without-ssl --without-zlib --without-brotli --without-zstd --without-nghttp2 \
        --without-libidn2 --without-libpsl --without-librtmp
}
curl_make() {
    make -j"$jobs" -C lib
    make -j"$jobs" -C src curl
}
curl_smoke() {
    seq 1 50000 > numbers
    "$1" -s "file://$PWD/numbers" | cmp - numbers && echo "same file"
    "$1" -s -r 100-199 "file://$PWD/numbers" | sha256sum
    "$1" -s -w '%{size_download}\n' -o copy "file://$PWD/numbers"
    "$1" -s "file://$PWD/absent" || echo "status $?"
    "$1" -s --connect-timeout 5 http://127.0.0.1:1/ || echo "status $?"
    "$1" --version | sed -n 's/^Protocols: //p'
}

sqlite3_packages="tcl"
sqlite3_binary=sqlite3
sqlite3_configure() { ./configure --disable-tcl --disable-readline; }
sqlite3_make() {
    # The amalgamation is generated; the shell is then two files in one call.
    make sqlite3.c shell.c
    rm -f sqlite3
    $CC -O2 -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_FTS5 shell.c sqlite3.c -lpthread -ldl -lm -o sqlite3
}
sqlite3_smoke() {
    "$1" test.db <<'SQL'
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
  insert into t select i, 'row ' || (i * 7919 % 20011) from n;
create index tb on t(b);
select count(*), sum(a), min(b), max(b) from t;
select a from t where b = 'row 42';
create virtual table f using fts5(x);
insert into f select b from t where a < 500;
select count(*) from f where f match 'row';
pragma integrity_check;
SQL
    "$1" test.db 'select round(avg(length(b)), 3) from t'
}

cppcheck_packages=""
cppcheck_binary=cppcheck
cppcheck_make() {
    # Its Makefile chooses the language standard by the compiler's name.
    make -j"$jobs" CXX="$CXX" CXXFLAGS="-O2 -DNDEBUG -std=gnu++0x" cppcheck
}
cppcheck_smoke() {
    cat > sample.cpp <<'CPP'
#include <cstdlib>
int leak(int n) { int *p = (int *)malloc(n); if (n > 3) return 1; free(p); return 0; }
int null(int *p) { int v = *p; if (!p) return 0; return v; }
int bounds() { int a[4]; a[4] = 1; return a[0]; }
int divide(int x) { if (x == 0) return 10 / x; return x; }
CPP
    # The configuration lies beside the binary that was built.
    "$1" --enable=all --inconclusive sample.cpp 2>&1
    "$1" --version
}

# ---- the work common to all --------------------------------------------------

# Runs one of the functions below in a process of its own: after `||`, bash would
# not stop at errors inside it.
step() { "$BASH" "$root/bugbase/real-programs.sh" --step "$@"; }

say() { printf '%s\n' "$*" >&2; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    as_root apt-get install -y --no-install-recommends "${missing[@]}" > "$cache/install.log" 2>&1 ||
        { as_root apt-get update && as_root apt-get install -y --no-install-recommends "${missing[@]}"; } \
            >> "$cache/install.log" 2>&1 ||
        { say "${missing[*]} could not be installed; see $cache/install.log"; return 1; }
}

# apt-get on copies of this machine's sources that name source packages.
source_apt() {
    apt-get -q -o Dir::Etc::SourceList="$cache/apt/sources.list" \
        -o Dir::Etc::SourceParts="$cache/apt/sources.list.d" \
        -o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache="$cache/apt/cache" \
        -o APT::Sandbox::User="" "$@"
}

prepare_source_apt() {
    [ -e "$cache/apt/ready" ] && return
    mkdir -p "$cache/apt"/{sources.list.d,lists/partial,cache/archives/partial}
    local file
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" > "$cache/apt/sources.list.d/${file##*/}"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] && sed -n 's/^deb \(.*\)/deb-src \1/p' "$file"
    done > "$cache/apt/sources.list"
    source_apt update
    touch "$cache/apt/ready"
}

# Downloads and unpacks a source package twice: for plain clang and for the wrapper.
fetch() {
    local program=$1 dsc
    [ -e "$cache/$program/fetched" ] && return
    prepare_source_apt
    mkdir -p "$cache/$program/download"
    cd "$cache/$program/download"
    source_apt source --download-only "$program"
    dsc=$(ls ./*.dsc)
    rm -rf ../plain ../wrapped
    dpkg-source -x "$dsc" ../plain
    cp -a ../plain ../wrapped
    touch ../fetched
}

# The compilers of a variant, in CC and CXX.
choose_compilers() {
    case "$1" in
    plain) CC="clang-19 -g" CXX="clang++-19 -g" ;;
    tsan) CC="clang-19 -g -fsanitize=thread" CXX="clang++-19 -g -fsanitize=thread" ;;
    # With the plain option clang refers to functions of the C++ library that it was
    # meant to inline, and nobody defines them.
    functions)
        CC="clang-19 -g -finstrument-functions"
        CXX="clang++-19 -g -finstrument-functions-after-inlining"
        ;;
    *) CC=$cache/bin/failsketch-cc CXX=$cache/bin/failsketch-c++ ;;
    esac
    export CC CXX
}

# What the compilers make of a small program, in a folder of a fixed name: the same
# for the same compilers. The command's own bytes would not do, they change with
# every change of ours.
fingerprint() {
    local probe=$cache/$1/probe.$2
    mkdir -p "$probe"
    cat > "$probe/probe.c" <<'C'
#include <stdio.h>
int twice(int x) { return 2 * x; }
int main(int n, char **a) { return puts(a[twice(n) / 2 - 1]) < 0; }
C
    (cd "$probe" && $CC -O2 probe.c -o probe && sha256sum < probe)
}

recipe_of() { declare -f "$1_configure" "$1_make" || true; }

configure_and_make() {
    if declare -f "$1_configure" > /dev/null; then "$1_configure"; fi
    "$1_make"
}

# Builds in $cache/$1/$2 unless that was done with the same tools and recipe.
build() {
    local program=$1 variant=$2 stamp
    choose_compilers "$variant"
    stamp=$({ recipe_of "$program"; echo "$CC $CXX"; fingerprint "$program" "$variant"; } | sha256sum)
    [ "$(cat "$cache/$program/$variant.stamp" 2> /dev/null)" = "$stamp" ] && return
    rm -f "$cache/$program/$variant.stamp"
    cd "$cache/$program/$variant"
    if [ -e Makefile ]; then make clean || true; fi
    configure_and_make "$program"
    printf '%s\n' "$stamp" > "$cache/$program/$variant.stamp"
}

# Makes the tree $cache/$1/$2 with patches applied and builds it. A build by the
# wrapper begins as a copy of the unpatched one.
build_variant() {
    local program=$1 variant=$2 recipe=$3 stamp tree patch
    shift 3
    tree=$cache/$program/$variant
    choose_compilers "$variant"
    stamp=$({ recipe_of "$program"; echo "$CC $CXX"; fingerprint "$program" "$variant"; cat /dev/null ${recipe:+"$recipe"} "$@"; } | sha256sum)
    [ "$(cat "$tree.stamp" 2> /dev/null)" = "$stamp" ] && return
    rm -rf "$tree.stamp" "$tree.registered" "$tree"
    case "$variant" in
    tsan | functions)
        dpkg-source -x "$cache/$program/download/"*.dsc "$tree"
        ;;
    *)
        build "$program" wrapped
        cp -a "$cache/$program/wrapped" "$tree"
        ;;
    esac
    cd "$tree"
    for patch in "$@"; do patch -p1 < "$patch"; done
    case "$variant" in
    tsan | functions) if declare -f "${program}_configure" > /dev/null; then "${program}_configure"; fi ;;
    esac
    if [ -n "$recipe" ]; then
        # shellcheck disable=SC1090
        . "$recipe"
    else
        "${program}_make"
    fi
    printf '%s\n' "$stamp" > "$tree.stamp"
}

# All of `--variant`; what it prints goes to the log.
variant() {
    local program=$1 variant=$2 recipe=$3 binary=$4 register=$5 packages=${1}_packages
    shift 5
    # shellcheck disable=SC2086
    step install_packages clang-19 llvm-19 lld-19 make patch binutils dpkg-dev xz-utils ca-certificates ${!packages}
    step fetch "$program"
    step build_variant "$program" "$variant" "$recipe" "$@"
    [ -n "$register" ] || return 0
    binary=$cache/$program/$variant/$binary
    [ "$(cat "$cache/$program/$variant.registered" 2> /dev/null)" = "$(sha256sum < "$binary")" ] &&
        [ -e "$binary.deployed" ] && return
    "$failsketch" register "$binary" --store "$cache/store" --deploy "$binary.deployed"
    sha256sum < "$binary" > "$cache/$program/$variant.registered"
}

code_of() {
    llvm-objcopy-19 -O binary --only-section=.text "$1" "$cache/code" && sha256sum < "$cache/code"
}

smoke() {
    local program=$1 binary=$2
    rm -rf "$cache/$program/smoke"
    mkdir -p "$cache/$program/smoke"
    cd "$cache/$program/smoke"
    "${program}_smoke" "$binary"
}

# All of one program. What it prints goes to the log, its result to $cache/$1/result.
check() {
    local program=$1 binary=${1}_binary packages=${1}_packages folder=$cache/$1
    local plain=$folder/plain/${!binary} wrapped=$folder/wrapped/${!binary} deployed summary
    fail() { echo "$*" > "$folder/result"; exit 1; }
    # shellcheck disable=SC2086
    step install_packages clang-19 llvm-19 lld-19 make dpkg-dev xz-utils ca-certificates ${!packages} ||
        fail "its packages could not be installed"
    step fetch "$program" || fail "its source could not be fetched"
    step build "$program" plain || fail "clang-19 does not build it"
    step build "$program" wrapped || fail "failsketch-cc does not build it"
    [ "$(code_of "$plain")" = "$(code_of "$wrapped")" ] || fail "its code differs from that of clang-19 -g"
    # Beside the original: a program may look for its files there.
    deployed=$wrapped.deployed
    "$failsketch" register "$wrapped" --store "$cache/store" --deploy "$deployed" > "$folder/summary" ||
        fail "it does not register"
    cat "$folder/summary"
    summary=$(sed -n 's/^modules  *//p' "$folder/summary")
    grep -q '^modules  *[1-9][0-9]* proven$' "$folder/summary" || fail "not all modules are proven: $summary"
    step smoke "$program" "$plain" > "$folder/smoke.plain" || fail "the smoke use fails with clang-19"
    step smoke "$program" "$deployed" > "$folder/smoke.deployed" || fail "the smoke use fails"
    cmp "$folder/smoke.plain" "$folder/smoke.deployed" || fail "the smoke use differs from clang-19's"
    echo "modules: $summary; code and smoke use as with clang-19" > "$folder/result"
}

if [ "${1:-}" = --step ]; then
    shift
    "$@"
    exit
fi

known() {
    case " $all_programs " in
    *" $1 "*) ;;
    *) say "real-programs: no program $1; there are: $all_programs"; exit 2 ;;
    esac
}

find_failsketch() {
    mkdir -p "$cache/bin"
    if [ -n "${FAILSKETCH:-}" ]; then
        failsketch=$(realpath "$FAILSKETCH")
    else
        (cd "$root" && cargo build --quiet --package cli)
        failsketch=$cargo_target/debug/failsketch
    fi
    export failsketch
    ln -sf "$failsketch" "$cache/bin/failsketch-cc"
    ln -sf "$failsketch" "$cache/bin/failsketch-c++"
}

if [ "${1:-}" = --variant ]; then
    program=${2:?"--variant PROGRAM NAME"} name=${3:?"--variant PROGRAM NAME"} recipe='' register='' patches=()
    known "$program"
    binary=${program}_binary binary=${!binary}
    shift 3
    while [ $# -gt 0 ]; do
        case "$1" in
        --recipe) recipe=$(realpath "$2") && shift 2 ;;
        --binary) binary=$2 && shift 2 ;;
        --register) register=yes && shift ;;
        *) patches+=("$(realpath "$1")") && shift ;;
        esac
    done
    find_failsketch
    mkdir -p "$cache/$program"
    # One at a time: two evaluations may want the same program.
    exec 9> "$cache/$program/lock"
    flock 9
    if ! step variant "$program" "$name" "$recipe" "$binary" "$register" "${patches[@]}" \
        > "$cache/$program/$name.log" 2>&1 9>&-; then
        say "real-programs: $program could not be built as $name; see $cache/$program/$name.log"
        exit 1
    fi
    echo "$cache/$program/$name/$binary"
    exit
fi

programs=${*:-$all_programs}
for program in $programs; do known "$program"; done

find_failsketch

failed=0 count=0
for program in $programs; do
    mkdir -p "$cache/$program"
    log=$cache/$program/log
    rm -f "$cache/$program/result"
    [ -t 2 ] && printf '%-10s building...\r' "$program" >&2
    count=$((count + 1))
    start=$SECONDS
    if step check "$program" > "$log" 2>&1; then
        word=ok
    else
        word=FAILED
        failed=$((failed + 1))
    fi
    result=$(cat "$cache/$program/result" 2> /dev/null || echo "it stopped unexpectedly")
    [ "$word" = ok ] || result="$result; see $log"
    printf '%-10s %-6s %s (%s s)\n' "$program" "$word" "$result" "$((SECONDS - start))"
done
printf '%s of %s programs built, proven and used as with clang-19.\n' "$((count - failed))" "$count"
[ "$failed" = 0 ]
