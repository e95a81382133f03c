//go:build tools

// Names the program that this module builds.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
