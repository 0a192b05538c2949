#!/bin/sh
# The cells of the client matrix with kcat: cells.sh NAME=VALUE... CELL...; tests/clients/README.md
# says what the arguments and the lines mean.
set -u
ca= user= password= lossy=
while :; do
    case ${1-} in
    bootstrap=*) bootstrap=${1#*=} ;;
    name=*) name=${1#*=} ;;
    lossy=*) lossy=${1#*=} ;;
    ca=*) ca=${1#*=} ;;
    user=*) user=${1#*=} ;;
    password=*) password=${1#*=} ;;
    *) break ;;
    esac
    shift
done
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# kcat_at ADDRESS WORD...: kcat as the security options say, and for half a minute at most.
kcat_at() {
    address=$1
    shift
    case ${user:+sasl}$ca in
    sasl) set -- -X security.protocol=SASL_PLAINTEXT "$@" ;;
    sasl*) set -- -X security.protocol=SASL_SSL "$@" ;;
    ?*) set -- -X security.protocol=SSL "$@" ;;
    esac
    [ -z "$ca" ] || set -- -X ssl.ca.location="$ca" "$@"
    [ -z "$user" ] || set -- -X sasl.mechanism=PLAIN -X sasl.username="$user" -X sasl.password="$password" "$@"
    timeout 30 kcat -b "$address" "$@"
}

ask() {
    kcat_at "$bootstrap" "$@"
}

# produce TOPIC WORD...: one record for each line of standard input.
produce() {
    topic=$1
    shift
    ask -P -t "$name.$topic" -p 0 "$@" 2>"$home/said"
}

# numbered VALUE COUNT: that many lines, VALUE-0 and so on.
numbered() {
    seq 0 $(($2 - 1)) | sed "s/^/$1-/"
}

# read_given OFFSET WORD...: three records from there.
read_given() {
    offset=$1
    shift
    ask -C -t given.read -p 0 -o "$offset" -c 3 -e -q -f '%o:%s ' "$@" 2>"$home/said"
}

# After a fatal error kcat now and then ends as if all was well.
not_fatal() {
    ! grep -q FATAL "$home/said"
}

# refused WORD...: what kcat says when it ends with an error.
refused() {
    if "$@" >/dev/null 2>"$home/said"; then
        echo "it was not refused" >"$home/said"
        return 1
    fi
    [ $? != 124 ] || return 1
    grep -v '^%4\|Waiting' "$home/said"
}

# follow WORD...: consumes the partition of NAME.tail from its end, and says so when it is there.
follow() {
    mkfifo "$home/tail" 2>/dev/null
    kcat_at "$bootstrap" -C -u -t "$name.tail" -p 0 -o end -f '%s ' "$@" >"$home/followed" 2>"$home/tail" &
    exec 3<"$home/tail"
    while read -r line <&3; do
        case $line in *"Reached end"*) return 0 ;; esac
    done
    return 1
}

in_file() {
    seq 1 100 | while read -r _; do
        [ "$(wc -w <"$home/followed")" -lt "$1" ] || return 1
        sleep 0.05
    done
    [ "$(wc -w <"$home/followed")" -ge "$1" ]
}

cell() {
    case $1 in
    version) kcat -V | sed -n 's/^Version \([^ ]*\) .*/\1/p' ;;
    list)
        ask -L -m 5 -t given.read >"$home/listed" 2>"$home/said" || return 1
        sed -n 's/^  topic "\(.*\)" with \([0-9]*\) partitions.*/\1:\2/p' "$home/listed"
        ;;
    acks-*) numbered "$1" 1 | produce made -X acks="${1#acks-}" ;;
    none | gzip | snappy | lz4 | zstd)
        numbered "$1" 20 | produce made -X compression.codec="$1" -X linger.ms=100 -X batch.num.messages=20
        ;;
    idempotent) numbered "$1" 20 | produce made -X enable.idempotence=true && not_fatal ;;
    earliest) read_given beginning ;;
    offset) read_given 40 ;;
    timestamp) read_given s@1700000055500 ;;
    latest)
        follow -c 1 && echo "$1-0" | produce tail && wait && cat "$home/followed"
        ;;
    tail)
        follow -c 3 || return 1
        for at in 0 1 2; do
            echo "$1-$at" | produce tail || return 1
            in_file $((at + 1)) || true
        done
        wait && cat "$home/followed"
        ;;
    headers)
        echo "$1" | produce made -H a=1 -H a=2 -H b -H c= || return 1
        ask -C -t given.forms -p 0 -o 0 -c 1 -e -q -f '%h' 2>"$home/said" | sed 's/,/ /g; s/NULL/null/'
        ;;
    nulls)
        echo 'null-value=' | produce made -K = -Z || return 1
        echo 'empty-value=' | produce made -K = || return 1
        echo '=null-key' | produce made -K = -Z || return 1
        echo '=empty-key' | produce made -K = || return 1
        # Of what is empty -Z would make a NULL, too, but lengths tell the two apart.
        ask -C -t given.forms -p 0 -o 1 -c 4 -e -q -f '%K|%k|%S|%s\n' 2>"$home/said" |
            awk -F '|' '{ print ($1 < 0 ? "null" : $2) "=" ($3 < 0 ? "null" : $4) }'
        ;;
    large) sized 900000 ;;
    huge) sized 5000000 -X message.max.bytes=6000000 -X fetch.message.max.bytes=6000000 ;;
    seek) limit "kcat reads on from where it began" ;;
    ends)
        for time in -2 -1; do
            ask -Q -t "given.read:0:$time" 2>"$home/said" | sed 's/.* //'
        done
        ;;
    group) refused ask -G "$name" given.read ;;
    transaction) echo "$1" | refused produce_told -X transactional.id="$name" ;;
    group-assign)
        for turn in 1 2; do
            ask -C -X group.id="$name" -t given.read -p 0 -o beginning -e -q -f '.\n' 2>"$home/said" | wc -l
            [ $turn = 2 ] || echo "then no error then"
        done
        ;;
    lost | lost-idempotent)
        extra=false
        [ "$1" = lost ] || extra=true
        numbered "$1" 10 |
            kcat_at "$lossy" -P -t "$name.lost" -p 0 -X enable.idempotence=$extra 2>"$home/said" && not_fatal
        ;;
    timed-out)
        numbered "$1" 3 | kcat_at "$lossy" -P -t "$name.lost" -p 0 -X enable.idempotence=true \
            -X batch.num.messages=1 -X max.in.flight=1 -X message.timeout.ms=4000 \
            -X socket.timeout.ms=1000 2>"$home/said" && not_fatal
        ;;
    forgotten)
        numbered "$1" 3 | kcat_at "$lossy" -P -t "$name.lost" -p 0 -X enable.idempotence=true \
            -X batch.num.messages=1 -X max.in.flight=1 2>"$home/said" && not_fatal
        ;;
    *) limit "its program here knows no such cell" ;;
    esac
}

produce_told() {
    ask -P -t "$name.made" -p 0 "$@"
}

# sized BYTES WORD...: a record of that many bytes, out and back.
sized() {
    bytes=$1
    shift
    head -c "$bytes" /dev/zero | tr '\0' x >"$home/value"
    ask -P -t "$name.large" -p 0 "$@" "$home/value" 2>"$home/said" || return 1
    ask -C -t "$name.large" -p 0 -o -1 -e -q -f '%S' "$@" 2>>"$home/said"
}

limit() {
    echo "$*" >"$home/said"
    return 1
}

for cell in "$@"; do
    begin=$(date +%s%3N)
    : >"$home/said"
    if cell "$cell" >"$home/detail"; then
        state=ok
    else
        state=no
        cp "$home/said" "$home/detail"
    fi
    detail=$(tr '\t\n' '  ' <"$home/detail" | sed 's/  */ /g; s/^ //; s/ $//')
    printf '%s\t%s\t%s\t%s\n' "$cell" "$state" "$detail" $(($(date +%s%3N) - begin))
done
