//go:build tools

// Names the programs that this module builds.
package tools

import _ "github.com/prometheus/node_exporter"
