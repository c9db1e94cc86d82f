//go:build slim

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// apiProgram is this program built without the tag slim. The generic API server triples a program and its
// idle resident memory, which whoever only exports should not pay for.
const apiProgram = "md-exporter-apiserver"

// serveAPI becomes the program that has the API server, which stands beside this one.
func serveAPI(context.Context, *slog.Logger, *apiFlags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(self), apiProgram)
	err = syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
	return fmt.Errorf("the API server is a program of its own beside this one, which make build builds too: %s: %w", path, err)
}
