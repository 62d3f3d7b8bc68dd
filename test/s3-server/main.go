// Command s3-server serves a directory with the protocol of S3: go run . HOST:PORT DIRECTORY ACCESS-KEY SECRET-KEY
//
// It is Versity's gateway as a library, with one account. The gateway's own command compiles four times as long, since
// it has other backends, too.
package main

import (
	"context"
	"log"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: s3-server HOST:PORT DIRECTORY ACCESS-KEY SECRET-KEY")
	}
	directory, err := posix.New(os.Args[2], meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		log.Fatal(err)
	}
	err = embedgw.RunVersityGW(context.Background(), directory, &embedgw.Config{
		Ports:             []string{os.Args[1]},
		RootUserAccess:    os.Args[3],
		RootUserSecret:    os.Args[4],
		MaxConnections:    1000,
		MaxRequests:       1000,
		MultipartMaxParts: 10_000,
		Quiet:             true,
	})
	log.Fatal(err)
}
