// The Go client of tests/compatibility/security. Go 1.19 is what Debian 12 has, and this the newest franz-go for it.
module tidelog.test/franz-go

go 1.19

require (
	github.com/twmb/franz-go v1.16.1
	github.com/twmb/franz-go/pkg/kmsg v1.7.0
)

require (
	github.com/klauspost/compress v1.17.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.19 // indirect
	golang.org/x/crypto v0.17.0 // indirect
)
