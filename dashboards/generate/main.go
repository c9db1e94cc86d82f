// Command generate writes the dashboards' JSON into the folder that it is run in.
package main

import (
	"log"
	"os"

	"github.com/md-exporter/md-exporter/dashboards"
)

func main() {
	files, err := dashboards.Files()
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
