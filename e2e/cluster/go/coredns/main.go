// Cluster DNS: CoreDNS with the few plugins a test cluster needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// The order is the order in which a query passes the plugins: what none of the others knows ends in the template.
func init() {
	dnsserver.Directives = []string{"health", "ready", "errors", "cache", "hosts", "kubernetes", "template"}
}

func main() { coremain.Run() }
