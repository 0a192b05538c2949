#!/bin/sh
# felix-bench beside librdkafka's rdkafka_performance, in turns on the same broker: where librdkafka
# is not the limit, both must find the same. scripts/bench-librdkafka.sh [rounds [milliseconds]]
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
rounds=${1:-4}
# Each side begins as often.
rounds=$((rounds + rounds % 2))
duration_ms=${2:-1000}
target=${CARGO_TARGET_DIR:-target}
bench=$target/release/felix-bench
rdkafka=$target/librdkafka/rdkafka_performance
broker_cpu=0
client_cpu=1
# Further apart than this, and one of the two measures something else.
apart_max=10
# From this share of the time on, in percent, somebody is what the others wait for.
busy=90

scripts/setup-build.sh
scripts/setup-librdkafka.sh
has curl || add_packages curl
if [ "$(nproc)" -lt 2 ]; then
    echo "felix: this needs processors $broker_cpu and $client_cpu, one for each side" >&2
    exit 1
fi
cargo build --quiet --release --locked --package felix-broker --package felix-bench

home=$(mktemp -d)
broker=
stop_broker() {
    if [ -n "$broker" ] && kill "$broker" 2>/dev/null; then
        wait "$broker" || true
    fi
    broker=
    rm -rf "$home/data"
}
trap 'stop_broker; rm -rf "$home"' EXIT
trap 'exit 130' INT TERM

fail() {
    echo "felix: $*" >&2
    exit 1
}

for durability in none periodic on_commit; do
    printf '[[stream]]\ntenant = "dev"\nnamespace = "bench"\nname = "%s"\nshards = 1\ndurability = "%s"\n\n' \
        "$durability" "$durability"
done >"$home/streams.toml"

# A broker with nothing in it and its defaults, on whatever ports are free.
start_broker() {
    stop_broker
    for try in 1 2 3 4 5; do
        port=$(awk -v seed="$$$try$(date +%S)" 'BEGIN { srand(seed); print 20000 + 2 * int(rand() * 6000) }')
        env -u RUST_LOG FELIX_CORES=$broker_cpu FELIX_KAFKA_LISTEN="127.0.0.1:$port" \
            FELIX_BROKER_METRICS_BIND="127.0.0.1:$((port + 1))" FELIX_KAFKA_TLS=false \
            FELIX_KAFKA_ANONYMOUS_TENANT=dev FELIX_DURABLE_STORAGE_DIR="$home/data" \
            FELIX_CATALOG_FILE="$home/streams.toml" \
            "$target/release/felix-broker" >"$home/broker.log" 2>&1 &
        broker=$!
        tries=0
        while kill -0 "$broker" 2>/dev/null && [ "$tries" -lt 300 ]; do
            if curl --silent --fail --output /dev/null "http://127.0.0.1:$((port + 1))/ready"; then
                return
            fi
            tries=$((tries + 1))
            sleep 0.1
        done
        stop_broker
    done
    tail -5 "$home/broker.log" >&2
    fail "the broker does not get ready"
}

# rdkafka WORD...: runs librdkafka's program; what it says is in $home/said, and the seconds of
# processor time that it took in $took.
rdkafka() {
    (
        taskset -c "$client_cpu" "$rdkafka" -b "127.0.0.1:$port" -t "bench.$stream" -p 0 \
            -i 600000 "$@" >"$home/said" 2>&1 || exit 1
        times >"$home/times"
    ) || { cat "$home/said" >&2; fail "librdkafka failed"; }
    if grep -q 'ERROR CALLBACK\|Consume error\|produce error' "$home/said"; then
        cat "$home/said" >&2
        fail "librdkafka reports errors"
    fi
    took=$(sed -n 2p "$home/times" | tr 'ms' '  ' | awk '{ print $1 * 60 + $2 + $3 * 60 + $4 }')
}

# metric NAME [FACTOR]: of the broker, in all, times that.
metric() {
    curl --silent --fail "http://127.0.0.1:$((port + 1))/metrics" |
        awk -v name="$1" -v times="${2:-1}" \
            '$1 == name || index($1, name "{") == 1 { n += $2 } END { printf "%.0f\n", n * times }'
}

# Counts what the broker says that a turn has appended, into $appended.
count_appended() {
    now=$(metric felix_storage_append_records_total)
    appended=$((now - end))
    end=$now
}

# The log end offset, as librdkafka sees it, must be the sum of all that was appended.
check_end() {
    rdkafka -C -o end -e
    found=$(sed -n 's/.*reached end of .* at offset \([0-9]*\)$/\1/p' "$home/said")
    [ "$found" = "$end" ] || fail "the log ends at $found, and $end records were appended"
}

# Nanoseconds that the broker's threads have run, and microseconds that flushes have taken.
look_at_broker() {
    ran=$(cat /proc/"$broker"/task/*/schedstat | awk '{ n += $1 } END { printf "%.0f\n", n }')
    flushed=$(metric felix_storage_sync_duration_seconds_sum 1e6)
}

# told KEY: the first number of that name in what felix-bench found.
told() {
    sed -n "s/^ *\"$1\": \([0-9.]*\),*\$/\1/p" "$home/found.json" | head -1
}

# felix WORD...: one turn of felix-bench.
felix() {
    "$bench" run --target "127.0.0.1:$port" --topic "bench.$stream" --no-create --pid "$broker" \
        --floor none --cpus "$client_cpu" --rounds 1 --warm-up 0s --json --quiet "$@" \
        >"$home/found.json" || fail "felix-bench failed"
    if grep '"errors": {' "$home/found.json" | grep -qv '{}' || [ "$(told unanswered)" != 0 ]; then
        fail "felix-bench reports errors"
    fi
}

# note SIDE FIGURE CLIENT [BROKER FLUSHES]: what a turn found, and the shares of its time.
note() {
    side=$1
    shift
    echo "$*" >>"$home/$side.turns"
}

# share PART WHOLE
share() {
    awk -v part="$1" -v whole="$2" 'BEGIN { print part / whole }'
}

felix_produces() {
    felix --rate max --duration "${duration_ms}ms" --batch "$batch" --in-flight "$in_flight"
    count_appended
    sent=$appended
    # What is on its way when time is up is appended and not counted.
    late=$((sent - $(told records)))
    if [ "$late" -lt 0 ] || [ "$late" -gt $((batch * in_flight)) ] || [ "$late" = "$sent" ]; then
        fail "felix-bench counts $(told records) records, and $sent were appended"
    fi
    note felix "$(told records_per_s)" "$(told client_busy)"
}

# timed_rdkafka WORD...: and what the broker did meanwhile, into $ran and $flushed.
timed_rdkafka() {
    look_at_broker
    ran_before=$ran
    flushed_before=$flushed
    rdkafka "$@"
    look_at_broker
    ran=$((ran - ran_before))
    flushed=$((flushed - flushed_before))
}

# The same number of records as felix-bench has appended.
rdkafka_produces() {
    timed_rdkafka -P -s 1024 -c "$sent" -a -1 -z none -X linger.ms="$linger" \
        -X batch.num.messages="$batch" -X batch.size=1000000 -X max.in.flight="$in_flight"
    check_delivered "$sent"
    note rdkafka "$per_s" "$client" "$served" "$flushing"
    count_appended
    [ "$appended" = "$sent" ] || fail "librdkafka delivers $sent records, and $appended were appended"
}

# check_delivered COUNT: librdkafka got as many acknowledgements.
check_delivered() {
    grep -q "% $1 messages produced .* $1 delivered .* 0 failed)" "$home/said" ||
        fail "librdkafka delivers something else than $1 records"
    summary
}

# What librdkafka's last line says, and the shares of that time that it, the broker and flushes took.
summary() {
    tail -n 3 "$home/said" | grep '^% [0-9]* messages .* msgs/s' | tail -n 1 >"$home/summary"
    ms=$(sed 's/.* in \([0-9]*\)ms: .*/\1/' "$home/summary")
    per_s=$(sed 's/.*ms: \([0-9]*\) msgs.*/\1/' "$home/summary")
    client=$(share "$took" "$ms.e-3")
    served=$(share "$ran" "$ms.e6")
    flushing=$(share "$flushed" "$ms.e3")
}

felix_fetches() {
    first=$end
    felix --workload fetch --duration "${duration_ms}ms" --batch 63 --fill 512
    count_appended
    note felix "$(told records_per_s)" "$(told client_busy)"
}

# The data that felix-bench has written and read, once.
rdkafka_fetches() {
    # Its own bounds on what waits for the application must not make it pause.
    timed_rdkafka -C -o "$first" -c "$appended" -X fetch.message.max.bytes=1048576 -X check.crcs=false \
        -X fetch.min.bytes=1 -X queued.max.messages.kbytes=2000000 -X queued.min.messages=10000000
    summary
    got=$(cut -d' ' -f2 "$home/summary")
    [ "$got" -ge "$appended" ] || fail "librdkafka reads $got records of $appended"
    note rdkafka "$per_s" "$client" "$served" "$flushing"
}

# Few enough that rdkafka_performance sleeps in between: it spins through the last millisecond.
rate=200

felix_acknowledges() {
    felix --rate "$rate" --duration 2s --batch 1
    count_appended
    note felix "$(told p50_us)" "$(told client_busy)"
}

# From the call that produces to the delivery report, both in the application's thread; and what
# librdkafka says of the round trip alone, as its thread for the broker sees it.
rdkafka_acknowledges() {
    count=$((2 * rate))
    timed_rdkafka -P -l -A "$home/latencies" -T 1000 -s 1024 -c "$count" -r "$rate" -a -1 -z none \
        -X linger.ms=0 -X batch.num.messages=1
    check_delivered "$count"
    # The first ones connect.
    note rdkafka "$(sed 1,20d "$home/latencies" | sort -n | middle)" "$client" "$served" "$flushing"
    note rtt "$(round_trips | sort -n | middle)" "$client" "$served" "$flushing"
    count_appended
    [ "$appended" = "$count" ] || fail "librdkafka delivers $count records, and $appended were appended"
}

# The median round trip of each second, of the connection that has most of them.
round_trips() {
    grep -o '"rtt": *{[^}]*}' "$home/said" | awk '
        { for (key = 1; key <= 2; key++) {
            name = key == 1 ? "\"p50\":" : "\"cnt\":"
            value[key] = substr($0, index($0, name) + 6) + 0 }
          if (value[2] >= '"$((rate / 2))"') print value[1] }'
}

middle() {
    awk '{ line[NR] = $1 } END { print (line[int((NR + 1) / 2)] + line[int(NR / 2) + 1]) / 2 }'
}

# column SIDE NUMBER: of its turns, in rising order.
column() {
    cut -d' ' -f"$2" "$home/$1.turns" | sort -n
}

# row WHAT UNIT SIDE: felix-bench beside what SIDE has noted, as a line of the table.
row() {
    client=$(column "$3" 2 | middle)
    served=$(column "$3" 3 | middle)
    flushing=$(column "$3" 4 | middle)
    # The turns of a pair follow each other on one broker, so the disk's moods cancel out.
    paste -d' ' "$home/felix.turns" "$home/$3.turns" | awk '{ print $1 / $3 }' >"$home/ratio.turns"
    ratio=$(column ratio 1 | middle)
    limit=$(awk -v client="$client" -v served="$served" -v flushing="$flushing" -v busy="$busy" 'BEGIN {
        if (client * 100 >= busy) print "librdkafka"
        else if (served * 100 >= busy) print "broker"
        else if (flushing * 100 >= busy) print "broker (flushes)"
        else if ((served + flushing) * 100 >= busy) print "broker (with flushes)"
        else print "nobody alone" }')
    agree=$(awk -v ratio="$ratio" -v max="$apart_max" 'BEGIN {
        print (ratio <= 1 + max / 100 && ratio >= 1 - max / 100 ? "yes" : "no") }')
    case $alike:$limit:$agree in
    yes:broker*:no) disagree="$disagree; $1" ;;
    *:no) agree="no, and need not" ;;
    esac
    printf '| %s | %s | %s | %s | %s | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %s | %s |\n' "$1" "$2" \
        "$(spread felix %.0f)" "$(spread "$3" %.0f)" "$(spread ratio %.2f)" \
        "$(percent "$(column felix 2 | middle)")" "$(percent "$client")" "$(percent "$served")" \
        "$(percent "$flushing")" "$limit" "$agree" >>"$home/table"
}

# spread SIDE FORMAT: the median of what was found, the least and the most.
spread() {
    # shellcheck disable=SC2059 # The format comes from above.
    printf "$2 ($2 to $2)" "$(column "$1" 1 | middle)" "$(column "$1" 1 | head -n 1)" \
        "$(column "$1" 1 | tail -n 1)"
}

percent() {
    awk -v share="$1" 'BEGIN { print share * 100 }'
}

# contest WHAT UNIT VERB: rounds, each on a fresh broker that has been warmed up, so that the disk does
# not write what a round before has left. Each side takes two turns, and who begins alternates from
# round to round, because the first turn is the slowest; but what is read must be there.
contest() {
    echo "felix: $1" >&2
    rm -f "$home"/*.turns
    round=1
    while [ "$round" -le "$rounds" ]; do
        start_broker
        end=0
        felix --rate max --duration 1s --batch 63 --in-flight 5
        count_appended
        if [ "$3" = fetches ]; then
            order="felix rdkafka felix rdkafka"
        elif [ $((round % 2)) = 1 ]; then
            order="felix rdkafka rdkafka felix"
        else
            order="rdkafka felix felix rdkafka"
        fi
        for turn in $order; do
            "${turn}_$3"
        done
        check_end
        round=$((round + 1))
    done
    row "$1" "$2" rdkafka
}

disagree=
alike=yes
in_flight=5 batch=63 linger=5
for stream in none periodic; do
    contest "produce $stream, 63 records a request, 5 in flight" records/s produces
done
# Acknowledgements of one flush come together. felix-bench sends what they bring in one piece, and
# librdkafka one after the other, so that its flushes cover fewer: the work is not the same.
alike=no
stream=on_commit
contest "produce on_commit, 63 records a request, 5 in flight" records/s produces
alike=yes
stream=none
contest "fetch, 1 MiB a request" records/s fetches

batch=1 linger=0
contest "produce none, 1 record a request, 5 in flight" records/s produces
in_flight=50
contest "produce none, 1 record a request, 50 in flight" records/s produces
in_flight=5
stream=on_commit
alike=no
contest "produce on_commit, 1 record a request, 5 in flight" records/s produces
alike=yes
in_flight=1
contest "produce on_commit, 1 record a request, 1 in flight" records/s produces

for stream in none on_commit; do
    contest "acknowledgement $stream, $rate/s, p50" us acknowledges
    row "the same, librdkafka's round trip, p50" us rtt
done

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
fs=$(df --output=fstype "$home" | tail -1)
cat <<PAGE

Machine: ${cpu:-processor of an unknown kind}, $(nproc) processors; Linux $(uname -r); $fs.
librdkafka $("$rdkafka" 2>&1 | sed -n 's/^librdkafka version \([^ ]*\).*/\1/p'); $((2 * rounds)) turns of each side; medians, least and most.
Broker on processor $broker_cpu, clients on processor $client_cpu. "busy" is the share of a processor; the broker's and that of
flushes are those in librdkafka's turns. "nobody alone": a closed loop in which all wait in turn.

| what | unit | felix-bench | librdkafka | ratio of a pair | felix-bench busy | librdkafka busy | broker busy | flushing | limit | within $apart_max % |
|---|---|---|---|---|---|---|---|---|---|---|
PAGE
cat "$home/table"
[ -z "$disagree" ] || fail "apart although librdkafka is not the limit: ${disagree#; }"
