#!/usr/bin/env bash
# How much does looking change what is looked at? Failure rates of racy programs, as
# they are and in three tracked builds, under the agent: branches and calls alone, all
# hooks without watchpoints, hooks and watchpoints. `./dev bench probes [BUG…]`.
#
# The failing statement is found as a user finds it: the program is run until it
# fails, and the innermost frame of its own is looked up. The builds run in turn,
# some runs at a time, so that a change of the machine's load meets all alike; P is
# run twice in each turn, for an A/A control. Rates come with 95% intervals (Wilson).
#
# RUNS, SIGMA and TURN are runs of each build, statements tracked, and runs a turn.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
failsketch=${FAILSKETCH:-../target/debug/failsketch}
agent=${FAILSKETCH_AGENT:-../target/debug/failsketch-agent}
runs=${RUNS:-1000} sigma=${SIGMA:-8} turn=${TURN:-50}
folder=$(mktemp -d "${TMPDIR:-/tmp}/failsketch-probes.XXXXXX")
trap 'rm -rf "$folder"' EXIT

field() { sed -n "s/^$2 = \[\?\(.*[^]]\)\]\?$/\1/p" "$1/bug.toml" | head -1 | tr -d '",'; }

# Runs a program `$2` times under the agent, records appended to `$1`.
run_under_agent() {
    local records=$1 count=$2
    shift 2
    "$agent" run --agent probes --cache "$folder/cache" --max-overhead 0 --repeat "$count" \
        --store-record "$folder/some" "$@" >/dev/null 2>>"$folder/log" || true
    cat "$folder/some" >>"$records"
}

# The static address of the first frame in the program `$1` that any record has.
first_frame() {
    awk -v module="\"module\":\"$1\"" '
        !found {
            while (match($0, /"lookup":[0-9]+,/)) {
                address = substr($0, RSTART + 9, RLENGTH - 10)
                $0 = substr($0, RSTART + RLENGTH)
                if (index($0, module) == 1) { found = 1; print address; break }
            }
        }'
}

# name, file of records → a line of the table
row() {
    awk -v name="$1" '
        { n++ }
        !/"outcome":"success"/ { failed++ }
        match($0, /"counted":[0-9]+/) { hits += substr($0, RSTART + 10, RLENGTH - 10) }
        match($0, /"cpu_us":[0-9]+/) { cpu += substr($0, RSTART + 9, RLENGTH - 9) }
        END {
            p = failed / n; z = 1.96; z2 = z * z
            middle = (p + z2 / (2 * n)) / (1 + z2 / n)
            half = z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
            printf "| %s | %d | %d | %.1f%% (%.1f–%.1f%%) | %.1f | %.2f |\n", name, n, failed,
                100 * p, 100 * (middle - half), 100 * (middle + half), hits / n, cpu / n / 1000
        }' "$2"
}

for bug in "${@:-pbzip2 detached-session pool-recycle}"; do
    for bug in $bug; do
        work=$folder/$bug
        mkdir -p "$work/deployed"
        language=$(field "$bug" language)
        compiler=cc
        [ "$language" = c ] || compiler=c++
        sources=()
        for source in $(field "$bug" sources); do sources+=("$PWD/$bug/$source"); done
        # shellcheck disable=SC2046  # flags are words
        "$failsketch" "$compiler" $(field "$bug" flags) "${sources[@]}" -o "$work/$bug"
        program=$work/deployed/$bug
        "$failsketch" register "$work/$bug" --store "$work/store" --deploy "$program" >/dev/null
        size=$(field "$bug" input_bytes)
        head -c "${size:-1}" /dev/zero | tr '\0' 'abcd' >"$work/input"
        arguments=()
        for argument in $(field "$bug" arguments); do
            argument=${argument//\{input\}/$work/input}
            arguments+=("${argument//\{output\}/$work/output}")
        done

        # The failing statement.
        lookup='' tries=0
        while [ -z "$lookup" ] && [ $tries -lt 20 ]; do
            run_under_agent "$work/first" 100 -- "$program" "${arguments[@]}"
            lookup=$(first_frame "$program" <"$work/first")
            tries=$((tries + 1))
        done
        [ -n "$lookup" ] || { echo "$bug did not fail in $((tries * 100)) runs" >&2; exit 1; }
        at=$(addr2line -i -e "$work/$bug" "$(printf '0x%x' "$lookup")" | sed -n '1s/ (.*//;1p')
        build=$(sed -n '1s/.*"build":"\([0-9a-f]*\)".*/\1/p' "$work/first")

        make_patch() {
            "$failsketch" patch --build "$build" --store "$work/store" --at "$at" --sigma "$sigma" \
                --data "$work/data" "$@" >/dev/null
        }
        quiet=$("$failsketch" plan --build "$build" --store "$work/store" --at "$at" --sigma "$sigma" |
            sed -n 's/.*variant \([0-9]*\) for inline probes$/\1/p' | tail -1)
        make_patch --variant "$quiet" --only control-flow --out "$work/control.patch"
        make_patch --variant "$quiet" --out "$work/inline.patch"
        make_patch --variant 0 --out "$work/watch.patch"
        key=$work/data/signing.pub

        done_runs=0
        while [ $done_runs -lt "$runs" ]; do
            run_under_agent "$work/p1" "$turn" -- "$program" "${arguments[@]}"
            for build_name in control inline watch; do
                run_under_agent "$work/$build_name" "$turn" --key "$key" --patch "$work/$build_name.patch" \
                    -- "$program" "${arguments[@]}"
            done
            run_under_agent "$work/p2" "$turn" -- "$program" "${arguments[@]}"
            done_runs=$((done_runs + turn))
        done
        printf '\n%s, failing at %s, σ = %s, load average %s\n\n' "$bug" "${at#"$PWD/"}" "$sigma" "$(cut -d' ' -f1 /proc/loadavg)"
        echo '| build | runs | failed | rate | hits a run | CPU ms a run |'
        echo '| --- | ---: | ---: | --- | ---: | ---: |'
        row 'P' "$work/p1"
        row 'P again (A/A)' "$work/p2"
        row 'branches and calls' "$work/control"
        row 'all hooks' "$work/inline"
        row 'hooks and watchpoints' "$work/watch"
    done
done
