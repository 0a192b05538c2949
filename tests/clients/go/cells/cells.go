// Package cells is what the three programs share: arguments, and a line for each cell.
// tests/clients/README.md says what they mean.
package cells

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// What the test has written for all clients to read.
const (
	Given   = "given.read"
	Forms   = "given.forms"
	TimeMs  = 1_700_000_055_500
	Timeout = 20 * time.Second
	Large   = 900_000
	Huge    = 5_000_000
	// Larger than Huge, for the bounds of clients.
	LargeMax = 6_000_000
	// As many as Given holds.
	Enough = 100
)

// Options are the arguments NAME=VALUE.
type Options map[string]string

// Topic is one of this client's own.
func (options Options) Topic(suffix string) string {
	return options["name"] + "." + suffix
}

// TLS is nil where the broker speaks none.
func (options Options) TLS() *tls.Config {
	if options["ca"] == "" {
		return nil
	}
	pem, err := os.ReadFile(options["ca"])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// A Pair is a key and a value, either of which may be nil.
type Pair struct{ Key, Value []byte }

// A Header may have a nil value.
type Header struct {
	Name  string
	Value []byte
}

// Headers are those of the cell of that name.
var Headers = []Header{{"a", []byte("1")}, {"a", []byte("2")}, {"b", nil}, {"c", []byte{}}}

// Nulls have a key or a value that is null or empty.
var Nulls = []Pair{
	{[]byte("null-value"), nil},
	{[]byte("empty-value"), []byte{}},
	{nil, []byte("null-key")},
	{[]byte{}, []byte("empty-key")},
}

// Values of a cell that produces so many records.
func Values(cell string, count int) []Pair {
	var found []Pair
	for number := range count {
		found = append(found, Pair{nil, fmt.Appendf(nil, "%s-%d", cell, number)})
	}
	return found
}

// Sized is one record of so many bytes.
func Sized(bytes int) []Pair {
	return []Pair{{nil, []byte(strings.Repeat("x", bytes))}}
}

// Text of bytes, or of the lack of them.
func Text(bytes []byte) string {
	if bytes == nil {
		return "null"
	}
	return string(bytes)
}

// Seen is a record as a detail.
func Seen(offset int64, value []byte) string {
	return fmt.Sprintf("%d:%s", offset, value)
}

// Version of a module that this program is built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "unknown"
}

// Main runs what the arguments ask for. Each cell ends: one that does not is told of, and left.
func Main(run func(options Options, cell string) (string, error)) {
	options := Options{}
	for _, arg := range os.Args[1:] {
		if name, value, ok := strings.Cut(arg, "="); ok {
			options[name] = value
			continue
		}
		begin := time.Now()
		type result struct {
			detail string
			err    error
		}
		done := make(chan result, 1)
		go func() {
			detail, err := run(options, arg)
			done <- result{detail, err}
		}()
		var told result
		select {
		case told = <-done:
		case <-time.After(Timeout + 5*time.Second):
			told.err = fmt.Errorf("it did not end within %s", Timeout)
		}
		state := "ok"
		if told.err != nil {
			state, told.detail = "no", told.err.Error()
		}
		detail := strings.Join(strings.Fields(told.detail), " ")
		fmt.Printf("%s\t%s\t%s\t%d\n", arg, state, detail, time.Since(begin).Milliseconds())
	}
}
