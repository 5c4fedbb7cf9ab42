package delivery

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/outbound"
)

// forbidden lists the addresses to which no endpoint may lead, under any name.
var forbidden = []string{
	"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", // this machine
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", // private
	"169.254.1.1", "169.254.169.254", "169.254.170.2", // link-local; metadata services
	"100.64.0.1", "100.100.100.200", "192.0.0.192", // shared; metadata services of other clouds
	"192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", // benchmarks, documentation
	"192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", // 6to4 relay, multicast, reserved, broadcast
	"::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", // the same in IPv6
	"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", // IPv4-mapped
	"::127.0.0.1", "::ffff:0:127.0.0.1", // IPv4-compatible, IPv4-translated
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", // NAT64
	"2002:7f00:1::", "2002:a9fe:a9fe::", // 6to4
	"2001::1", "2001:0:7f00:1::", // Teredo
	// Services of cloud providers, inside their networks.
	"168.63.129.16", "::ffff:168.63.129.16", "161.26.0.10", "166.8.0.1", "166.11.255.255",
	"192.31.196.1", "192.52.193.1", "192.175.48.1", "2620:4f:8000::1", // name servers and relays of no single site
	"3ffe::1", "3ffe:ffff::1", "5f00::1", "100::1", "3fff::1", // the 6bone, segment routing, discard, documentation
	"2001:10::1", "2001:20::1", "2001:3::1", "2001:1ff:ffff::1", // ORCHID, AMT and other addresses for protocols
	// ISATAP forms of refused addresses.
	"2a00::5efe:127.0.0.1", "2a00::5efe:10.0.0.1", "2a00::5efe:169.254.169.254", "2606:4700::5efe:168.63.129.16",
	"2a00::200:5efe:127.0.0.1", "2a00::200:5efe:192.168.1.1", // the same with the bit of globally unique addresses
	"2a00::5efe:224.0.0.1", "2a00::5efe:0.0.0.0",
	"2a00::100:5efe:10.0.0.1", "2a00::300:5efe:10.0.0.1", // and as a group
	"fe80::5efe:127.0.0.1",
}

// zoned are addresses of a network of this machine, which a URL cannot name.
var zoned = []string{"fe80::1%eth0", "ff02::1%1", "fec0::1%1", "2a00::1%eth0"}

func dialled(ip string) (network, address string) {
	if strings.Contains(ip, ":") {
		return "tcp6", net.JoinHostPort(ip, "443")
	}
	return "tcp4", net.JoinHostPort(ip, "443")
}

func TestTheGuardRefusesEveryAddressThatIsNotPublic(t *testing.T) {
	t.Parallel()
	for _, ip := range append(zoned, forbidden...) {
		network, address := dialled(ip)
		if err := outbound.ControlPublic(network, address, nil); !errors.Is(err, outbound.ErrForbidden) {
			t.Errorf("%s: got %v, want it refused", ip, err)
		}
	}
	for _, ip := range []string{
		"93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "168.63.129.15", "168.63.129.17",
		"2a00::5efe:8.8.8.8", "2a00::200:5efe:8.8.8.8", "2a00::5eff:127.0.0.1", "2a00:5efe:7f00:1::1", "2001:200::1",
		"3ffd::1",
	} {
		network, address := dialled(ip)
		if err := outbound.ControlPublic(network, address, nil); err != nil {
			t.Errorf("%s: got %v, want it allowed", ip, err)
		}
	}
	if err := outbound.ControlPublic("udp4", "8.8.8.8:53", nil); !errors.Is(err, outbound.ErrForbidden) {
		t.Errorf("udp: got %v, want it refused", err)
	}
}

func TestDevelopmentHTTPReachesLoopbackAlone(t *testing.T) {
	t.Parallel()
	for _, ip := range append([]string{"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"}, forbidden...) {
		network, address := dialled(ip)
		want := strings.HasPrefix(ip, "127.") || ip == "::1" || ip == "::ffff:127.0.0.1"
		if err := outbound.ControlLoopback(network, address, nil); (err == nil) != want {
			t.Errorf("%s: got %v, want allowed %v", ip, err, want)
		}
	}
}

// A receiver on loopback that must never be reached, and a name service. It resolves every name to
// the addresses in turn, and to the last one from then on; without addresses, to this machine.
func trap(t *testing.T, turns ...[4]byte) (port string, hits *atomic.Int32, resolver *net.Resolver) {
	t.Helper()
	if len(turns) == 0 {
		turns = [][4]byte{{127, 0, 0, 1}}
	}
	hits = &atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			hits.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { names.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := names.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, used := answered(buf[:n], turns[0])
			if used && len(turns) > 1 {
				turns = turns[1:]
			}
			_, _ = names.WriteTo(reply, from)
		}
	}()
	resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", names.LocalAddr().String())
	}}
	return port, hits, resolver
}

// answered answers a DNS question for an A record with an address that may not be cached, and any
// other with nothing.
func answered(query []byte, ip [4]byte) (answer []byte, used bool) {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[12 : end+5]
	answer = append([]byte{}, query[:2]...)
	answer = append(answer, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	answer = append(answer, question...)
	if used = binary.BigEndian.Uint16(question[len(question)-4:]) == 1; used {
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, ip[:]...)
	}
	return answer, used
}

// A name that was public at first, and resolves to this machine at the time of the connection: only
// the dialled address counts. Rule EVT-6.
func TestANameThatIsBoundAnewIsRefusedAtTheDial(t *testing.T) {
	t.Parallel()
	port, hits, resolver := trap(t, [4]byte{93, 184, 216, 34}, [4]byte{127, 0, 0, 1})
	const host = "receiver.example.com"
	seen, err := resolver.LookupHost(t.Context(), host)
	if err != nil || len(seen) != 1 || seen[0] != "93.184.216.34" {
		t.Fatalf("got %v and %v, want it public at first", seen, err)
	}
	network, address := dialled(seen[0])
	if err := outbound.ControlPublic(network, address, nil); err != nil {
		t.Fatalf("got %v, want what was seen allowed", err)
	}
	via := outbound.New(outbound.Config{Resolver: resolver})
	t.Cleanup(via.CloseIdle)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+net.JoinHostPort(host, port), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := via.NewClient().Do(r)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, outbound.ErrForbidden) || hits.Load() != 0 {
		t.Errorf("got %v and %v connections, want it refused and none", err, hits.Load())
	}
	if cause, text := describeError(err); cause != "forbidden" || strings.Contains(text, "127") {
		t.Errorf("got %q %q, want it told without the address", cause, text)
	}
	if now, err := resolver.LookupHost(t.Context(), host); err != nil || len(now) != 1 || now[0] != "127.0.0.1" {
		t.Errorf("got %v and %v, want it bound to this machine", now, err)
	}
}

// Rule EVT-6.
func TestNoPostReachesAForbiddenAddress(t *testing.T) {
	t.Parallel()
	port, hits, resolver := trap(t)
	urls := []string{
		"https://localhost:" + port + "/", "https://receiver.example.com:" + port + "/", "https://127.0.0.1:" + port,
		"https://2130706433:" + port, "https://0x7f000001:" + port, "https://127.1:" + port,
		"https://[::ffff:127.0.0.1]:" + port,
		"http://127.0.0.1:" + port, "http://receiver.example.com:" + port, "ftp://127.0.0.1:" + port,
		"file:///etc/passwd",
	}
	for _, ip := range forbidden {
		_, address := dialled(ip)
		host, _, _ := net.SplitHostPort(address)
		urls = append(urls, "https://"+net.JoinHostPort(host, port))
	}
	w := newWorld(t, true)
	w.endpoints.Development = false
	// This passes the check of the URL, so only the guard protects.
	for range urls {
		w.exec(`INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at, updated_at)
			SELECT 'we_' || count(*), 'org_1', 'x', '{}', 'ENABLED', '', now(), now() FROM webhook_endpoints`)
	}
	rows, err := w.owner.Query(t.Context(), `SELECT endpoint_id FROM webhook_endpoints`)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		sealed, err := w.keyset.Seal([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), secretBinding(org, id, 1))
		if err != nil {
			t.Fatal(err)
		}
		w.exec(`UPDATE webhook_endpoints SET url = $2 WHERE endpoint_id = $1`, id, urls[i])
		w.exec(
			`INSERT INTO webhook_secrets (endpoint_id, version, org_id, sealed, created_at) VALUES ($1, 1, 'org_1', $2, now())`,
			id, sealed,
		)
	}
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.Development, d.resolver, d.answerMax = false, resolver, 5*time.Second
	w.step(d)
	for _, got := range w.deliveries() {
		if got.Status != "PENDING" || got.Attempts != 1 || got.Code != nil || got.Error == nil {
			t.Errorf("%s: got %+v, want one attempt without an answer", got.EndpointID, got)
		} else if *got.Error != outbound.ErrForbidden.Error() && !strings.Contains(*got.Error, "resolved") {
			t.Errorf("%s: got %q, want it refused without a word of why", got.EndpointID, *got.Error)
		}
	}
	if len(w.deliveries()) != len(urls) || hits.Load() != 0 {
		t.Errorf("got %v deliveries and %v connections, want %v and none", len(w.deliveries()), hits.Load(), len(urls))
	}
}

func TestTheURLOfAnEndpointIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url                    string
		allowed, inDevelopment bool
	}{
		{"https://example.com/hooks?a=b", true, true},
		{"https://example.com:8443", true, true},
		{"https://[2606:2800:220:1:248:1893:25c8:1946]/", true, true},
		{"http://127.0.0.1:8090/hooks", false, true},
		{"http://[::1]:8090/hooks", false, true},
		{"http://localhost:8090", false, true},
		{"http://example.com", false, false},
		{"http://10.0.0.1", false, false},
		{"http://127.0.0.1.example.com", false, false},
		{"https://127.0.0.1", false, false},
		{"https://localhost", false, false},
		{"https://LOCALHOST.", false, false},
		{"https://a.localhost", false, false},
		{"https://169.254.169.254/latest", false, false},
		{"https://[::ffff:10.0.0.1]", false, false},
		{"https://[fe80::1%25eth0]", false, false},
		{"https://user:pass@example.com", false, false},
		{"https://example.com/#part", false, false},
		{"https://example.com/#", false, false},
		{"https://example.com:0", false, false},
		{"https://example.com:", false, false},
		{"https://example.com:70000", false, false},
		{"https:///path", false, false},
		{"https://", false, false},
		{"https:example.com", false, false},
		{"//example.com", false, false},
		{"example.com", false, false},
		{"ftp://example.com", false, false},
		{"javascript:alert(1)", false, false},
		{"https://example.com/a b", false, false},
		{"https://example.com/\n", false, false},
		{"https://exam\x00ple.com/", false, false},
		{"https://example.com/\xff", false, false},
		{"https://example.com/%zz", false, false},
		{"", false, false},
		{"https://example.com/" + strings.Repeat("a", urlBytesMax), false, false},
	} {
		if err := checkURL(c.url, false); (err == nil) != c.allowed {
			t.Errorf("%.80q: got %v, want allowed %v", c.url, err, c.allowed)
		}
		if err := checkURL(c.url, true); (err == nil) != c.inDevelopment {
			t.Errorf("%.80q in development: got %v, want allowed %v", c.url, err, c.inDevelopment)
		}
	}
}
