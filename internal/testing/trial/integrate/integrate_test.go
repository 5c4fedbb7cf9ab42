package integrate

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/docs"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/freeport"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/binary"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/webhook"
)

const (
	root       = "../../../.."
	typescript = root + "/clients/typescript"
	port       = "127.0.0.1:8787" // of the receiver on the page
)

// block is a piece of code on the page. name is the file of a program.
type block struct{ language, name, text string }

// findBlocks returns the pieces of code in their order.
func findBlocks(markdown string) []block {
	var out []block
	for _, m := range regexp.MustCompile(
		"(?ms)^```([a-z]*) ?([a-z.]*)\n(.*?)^```$",
	).FindAllStringSubmatch(markdown, -1) {
		out = append(out, block{m[1], m[2], m[3]})
	}
	return out
}

func program(t *testing.T, name string) string {
	t.Helper()
	i := slices.IndexFunc(findBlocks(docs.Integrate), func(b block) bool { return b.name == name })
	if i < 0 {
		t.Fatalf("docs/integrate.md has no program %s", name)
	}
	return findBlocks(docs.Integrate)[i].text
}

// workspace is a folder with a running world and the program, as after make run.
type workspace struct {
	*testing.T
	ctx  context.Context
	dir  string
	info localworld.Info
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	t.Cleanup(cancel)
	p := &workspace{T: t, ctx: ctx, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := binary.BuildProgram(ctx, root, filepath.Join(p.dir, "bin", "coffer"), ""); err != nil {
		t.Fatal(err)
	}
	w, err := localworld.Start(ctx, localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: p.dir, BlockTime: 250 * time.Millisecond, Calm: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	p.info = w.Info
	return p
}

// runCommand runs a command to its end and returns what it printed.
func (p *workspace) runCommand(dir string, env []string, name string, args ...string) string {
	p.Helper()
	c := exec.CommandContext(p.ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		p.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// output collects what a program prints while it runs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProgram runs a program until the test ends.
func (p *workspace) startProgram(dir string, env []string, name string, args ...string) *output {
	p.Helper()
	ctx, stop := context.WithCancel(p.ctx)
	c := exec.CommandContext(ctx, name, args...)
	out := &output{}
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), out, out
	if err := c.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		stop()
		_ = c.Wait() // it was killed
	})
	return out
}

// patience is the longest that a single action may take, other than a whole run of a program.
const patience = 10 * time.Minute

// waitUntil waits until a condition holds.
func (p *workspace) waitUntil(what string, holds func() bool) {
	p.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-p.ctx.Done():
			p.Fatalf("ended while waiting until %s", what)
		case <-late.C:
			p.Fatalf("waited %s until %s", patience, what)
		case <-tick.C:
		}
	}
}

// waitListening waits until a started program accepts connections.
func (p *workspace) waitListening(address string) {
	p.Helper()
	p.waitUntil("a program listens on "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// shell is one bash in which the page's commands are pasted one after another.
type shell struct {
	p   *workspace
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

func (p *workspace) newShell() *shell {
	p.Helper()
	c := exec.CommandContext(p.ctx, "bash", "--norc", "-o", "pipefail")
	c.Dir = p.dir
	in, err := c.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		in.Close()
		_ = c.Wait() // every command's exit code was checked
	})
	return &shell{p: p, in: in, out: bufio.NewReader(out)}
}

// runBlock gives the shell a block and waits for its end.
func (s *shell) runBlock(text string) string {
	s.p.Helper()
	s.n++
	end := fmt.Sprintf("end of block %d", s.n)
	if _, err := io.WriteString(s.in, text+"\necho \""+end+" $?\"\n"); err != nil {
		s.p.Fatal(err)
	}
	var all strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if status, ok := strings.CutPrefix(strings.TrimSpace(line), end+" "); ok {
			if status != "0" {
				s.p.Fatalf("ended with %s:\n%s\n%s", status, text, all.String())
			}
			return all.String()
		}
		all.WriteString(line)
		if err != nil {
			s.p.Fatalf("the shell ended (%v) in\n%s\n%s", err, text, all.String())
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.FindAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// The operator's page in a browser: its guide, its calls, and no request to another host.
func TestTheOperatorsPageStandsOnItsOwnListener(t *testing.T) {
	t.Parallel()
	p := newWorkspace(t)
	page := browser.Open(t)
	page.OpenURL(p.info.OperatorURL+"/docs", browser.Appearance{Width: 1440, Height: 900})
	page.WaitUntil(
		`document.title.includes("the operator's interface") && document.body.innerText.includes("The same at a terminal")`,
	)
	browser.Evaluate[bool](page, `(location.hash = "#tag/reserves/GET/reserves", true)`)
	page.WaitUntil(`document.body.innerText.includes("/reserves")`)
	for _, r := range page.ListRequests() {
		if !strings.HasPrefix(r, p.info.OperatorURL+"/docs") && !strings.HasPrefix(r, "data:") {
			t.Errorf("the page asked for %s, want nothing from elsewhere", r)
		}
	}
	for _, c := range page.ListComplaints() {
		t.Errorf("the page complains: %s", c)
	}
}

// The guide from its first line to its last, as a browser shows it at /docs. The pasted commands
// credit a deposit, its programs verify and pay, and its page sends no request to another host.
// Rule DOC-3.
func TestTheGuideHoldsFromTheFirstLineToTheLast(t *testing.T) {
	t.Parallel()
	p := newWorkspace(t)
	site := strings.TrimSuffix(p.info.BaseURL, "/v1")
	page := browser.Open(t)
	for name, look := range map[string]browser.Appearance{
		"narrow-dark": {Width: 390, Height: 844, Dark: true}, "wide": {Width: 1440, Height: 900},
	} {
		page.OpenURL(site+"/docs", look)
		page.WaitUntil(`document.body.innerText.includes("A credited deposit in five minutes")`)
		if fits := browser.Evaluate[bool](page, `document.documentElement.scrollWidth <= innerWidth`); !fits {
			t.Errorf("%s: got a page that is wider than its window", name)
		}
		// For a person who changes the page's look.
		if dir := os.Getenv("COFFER_SHOTS"); dir != "" {
			page.SaveScreenshot(filepath.Join(dir, name+".png"))
		}
	}
	browser.Evaluate[bool](page, `(location.hash = "#tag/withdrawals/POST/withdraw", true)`)
	page.WaitUntil(`[...document.querySelectorAll("h2,h3")].some((h) => h.textContent.includes("Withdraw from"))`)
	shown := browser.Evaluate[[]string](
		page, `[...document.querySelectorAll(".markdown pre")].map((e) => e.textContent.trimEnd())`,
	)
	written := findBlocks(docs.Integrate)
	for i, b := range written {
		if i >= len(shown) || shown[i] != strings.TrimRight(b.text, "\n") {
			t.Fatalf("block %d: got %q on the page, want %q", i, append(shown, "nothing")[min(i, len(shown))], b.text)
		}
	}
	for _, r := range page.ListRequests() {
		if !strings.HasPrefix(r, site+"/docs") && !strings.HasPrefix(r, "data:") {
			t.Errorf("the page asked for %s, want nothing from elsewhere", r)
		}
	}
	for _, c := range page.ListComplaints() {
		t.Errorf("the page complains: %s", c)
	}

	receiver := filepath.Join(p.dir, "receiver")
	p.buildProgram("receiver.go", receiver)
	payout := filepath.Join(p.dir, "payout")
	p.buildProgram("payout.go", payout)
	address := freeAddress(t)
	sh := p.newShell()
	var received *output
	said := map[string]string{}
	for i, b := range written {
		if b.language != "sh" {
			continue
		}
		if received == nil && strings.Contains(b.text, "WEBHOOK_SECRET") {
			p.waitUntil("the first deposit's event has its number", p.hasNumberedEvent)
		}
		said[b.text] = sh.runBlock(strings.ReplaceAll(shown[i], port, address))
		if received == nil && strings.Contains(b.text, "WEBHOOK_SECRET") {
			secret := strings.TrimSpace(sh.runBlock(`echo "$WEBHOOK_SECRET"`))
			received = p.startProgram(p.dir, []string{"WEBHOOK_SECRET=" + secret, "LISTEN=" + address}, receiver)
			p.waitListening(address)
		}
	}
	for _, c := range []struct{ of, want string }{
		{".available ==", `"available": "250000000"`},
		{"/events?after=0", `"CUSTOMER_DEPOSIT"`},
		{"/test\"", "DELIVERED"},
		{"one payment", "one payment: wd_"},
		{"= COMPLETED ]", "COMPLETED"},
		{"payout-994", "INVALID_ADDRESS"},
		{"/withdraw/preview", `["AWAITING_APPROVAL",["REQUIRE_APPROVAL"]]`},
		{"payout-995", "CANCELLED"},
		{"payouts.csv", `["DRAFT",3,"4500000",[]]`},
		{"payouts approve", `[3,"COMPLETED","750000"]`},
		{"checkout-77", "OPEN\n49.99\n"},
		{"sold()", `["COMPLETED","NONE","49.99","CREDITED"]`},
		{"given()", `["COMPLETED","AMOUNT","10000000"]`},
	} {
		found := false
		for text, out := range said {
			found = found || strings.Contains(text, c.of) && strings.Contains(out, c.want)
		}
		if !found {
			t.Errorf("got no %q from the command with %q: %q", c.want, c.of, said)
		}
	}
	if received == nil {
		t.Fatal("the guide registers no endpoint")
	}
	defer func() {
		if t.Failed() {
			t.Logf("the receiver said: %s", received)
		}
	}()
	p.waitUntil("the receiver has the second deposit and the payment", func() bool {
		out := received.String()
		return strings.Contains(out, "credit user_42 5000000 of mint 1\n") && strings.Contains(out, "on its way: wd_")
	})
	if strings.Contains(received.String(), "250000000") {
		t.Errorf("got %s, want no event from before the endpoint", received)
	}
	env := []string{"COFFER_URL=" + p.info.BaseURL, "COFFER_API_KEY=" + p.info.APIKey}
	// The key makes the second call harmless.
	for _, out := range []string{p.runCommand(p.dir, env, payout), p.runCommand(p.dir, env, payout)} {
		if !strings.Contains(out, "taken: ") || !strings.Contains(out, "CREDITED 250 USDC\n") {
			t.Errorf("payout.go: got %s", out)
		}
	}
	p.runTypeScript(env)
}

// The program that checks an address before it is shown, as the guide has it. It needs no service. Rule CO-29.
func TestTheAddressCheckOfTheGuideShowsOnlyWhatIsProven(t *testing.T) {
	t.Parallel()
	p := &workspace{T: t, ctx: t.Context(), dir: t.TempDir()}
	check := filepath.Join(p.dir, "address")
	p.buildProgram("address.go", check)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const id, address = "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"
	ref := signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: webhook.CheckoutPurpose, Subject: id}
	signature := ed25519.Sign(private, signer.AttestedBytes(ref, "m/1", address))
	for name, c := range map[string]struct{ checkoutID, address, want string }{
		"genuine":             {id, address, "pay 49990000 to " + address + "\n"},
		"of another checkout": {"co_other", address, "show nothing: "},
		"changed":             {id, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "show nothing: "},
	} {
		option, err := json.Marshal(webhook.PaymentOption{
			MintID: 1, Address: &c.address, Amount: new("49990000"), AddressProof: &webhook.AddressProof{
				Family: string(ref.Family), Purpose: ref.Purpose, Path: "m/1",
				Signature: base64.StdEncoding.EncodeToString(signature),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(p.ctx, check)
		command.Stdin = strings.NewReader(string(option))
		command.Env = append(os.Environ(), "ATTEST_KEY="+hex.EncodeToString(public), "ORGANIZATION_ID=org_1",
			"CHECKOUT_ID="+c.checkoutID)
		out, err := command.CombinedOutput()
		isShown := strings.HasPrefix(c.want, "pay ")
		if !strings.Contains(string(out), c.want) || (err == nil) != isShown {
			t.Errorf("%s: got %q, %v, want %q", name, out, err, c.want)
		}
	}
}

// The program behind successUrl, as the guide has it. It needs no service, because a statement is verified without a
// call.
func TestTheReturnPageOfTheGuideBelievesAStatementAlone(t *testing.T) {
	t.Parallel()
	p := &workspace{T: t, ctx: t.Context(), dir: t.TempDir()}
	thanks := filepath.Join(p.dir, "thanks")
	p.buildProgram("thanks.go", thanks)
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, address := webhook.PrivateKey(private), freeAddress(t)
	p.startProgram(p.dir, []string{"WEBHOOK_KEYS=" + key.Public(), "LISTEN=" + address}, thanks)
	p.waitListening(address)
	now := time.Now()
	genuine := webhook.Statement{
		Environment: webhook.Test, CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", Status: "COMPLETED", Currency: "USD",
		AmountDue: "49.99", AmountPaid: "50", IssuedAt: webhook.At(now), ExpiresAt: webhook.At(now.Add(time.Hour)),
	}
	another, expired, processing := genuine, genuine, genuine
	another.CheckoutID, expired.ExpiresAt, processing.Status = "co_other", webhook.At(now), "PROCESSING"
	for name, c := range map[string]struct {
		order     string
		statement webhook.Statement
		suffix    string
		want      string
	}{
		"genuine":          {"order-77", genuine, "", "Paid: 50 USD. Thank you!\n"},
		"not final yet":    {"order-77", processing, "", "Your payment is on its way.\n"},
		"of another order": {"order-77", another, "", "We are waiting for your payment.\n"},
		"unknown order":    {"order-78", genuine, "", "We are waiting for your payment.\n"},
		"expired":          {"order-77", expired, "", "We are waiting for your payment.\n"},
		"changed":          {"order-77", genuine, "A", "We are waiting for your payment.\n"},
	} {
		statement, err := webhook.SignStatement(c.statement, key)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, "http://"+address+"/thanks/"+c.order+
			"?checkoutId=co_01J9ZW3M8Q4S5T6V7W8X9YZABC&status=COMPLETED&statement="+statement+c.suffix, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, body, err, c.want)
		}
	}
}

// hasNumberedEvent reports whether the feed shows an event. An endpoint that is registered before an
// event has its number receives that event.
func (p *workspace) hasNumberedEvent() bool {
	r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.info.BaseURL+"/events?after=0", nil)
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("X-Api-Key", p.info.APIKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	var feed struct{ Data []json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&feed); err != nil || answer.StatusCode != http.StatusOK {
		p.Fatalf("GET /events: %s, %v", answer.Status, err)
	}
	return len(feed.Data) > 0
}

// buildProgram compiles a program of the page.
func (p *workspace) buildProgram(name, to string) {
	p.Helper()
	source := filepath.Join(p.dir, name)
	if err := os.WriteFile(source, []byte(program(p.T, name)), 0o600); err != nil {
		p.Fatal(err)
	}
	p.runCommand(root, nil, "go", "build", "-o", to, source)
	p.runCommand(root, nil, "go", "vet", source)
}

// runTypeScript compiles the client and the page's programs against it, and runs the
// client's own tests and the programs.
func (p *workspace) runTypeScript(env []string) {
	p.Helper()
	own, err := filepath.Abs(typescript)
	if err != nil {
		p.Fatal(err)
	}
	tsc := filepath.Join(own, "node_modules/typescript/bin/tsc")
	if _, err := os.Stat(tsc); err != nil {
		p.Fatalf("the TypeScript client cannot be compiled: run scripts/setup --test (%v)", err)
	}
	build := filepath.Join(p.dir, "typescript")
	p.runCommand(own, nil, "node", tsc, "--outDir", filepath.Join(build, "dist"))
	link := func(from, to string) {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.Symlink(from, to)
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	for _, name := range []string{"package.json", "node_modules"} {
		link(filepath.Join(own, name), filepath.Join(build, name))
	}
	tests, err := filepath.Glob(filepath.Join(build, "dist/test/*.test.js"))
	if err != nil || len(tests) == 0 {
		p.Fatalf("the TypeScript client has no tests: %v", err)
	}
	vector, err := filepath.Abs(filepath.Join(root, "webhook/testdata/signed/vector.json"))
	if err != nil {
		p.Fatal(err)
	}
	out := p.runCommand(build, append(
		env, "COFFER_LOCAL="+filepath.Join(p.dir, localworld.InfoFile),
		"COFFER_PROGRAM="+filepath.Join(p.dir, "bin", "coffer"), "COFFER_SIGNED_VECTOR="+vector,
	),
		"node", append([]string{"--test"}, tests...)...)
	if !strings.Contains(out, "# fail 0") && !strings.Contains(out, "ℹ fail 0") {
		p.Errorf("the tests of the TypeScript client: got %s", out)
	}

	guide := filepath.Join(p.dir, "guide")
	link(build, filepath.Join(guide, "node_modules/@cofferpay/client"))
	link(filepath.Join(own, "node_modules/@types"), filepath.Join(guide, "node_modules/@types"))
	for name, text := range map[string]string{
		"package.json":  `{"type": "module"}`,
		"tsconfig.json": `{"compilerOptions": {"target": "ES2022", "module": "nodenext", "strict": true, "skipLibCheck": true, "lib": ["ES2022"], "types": ["node"]}}`,
		"receiver.ts":   program(p.T, "receiver.ts"),
		"payout.ts":     program(p.T, "payout.ts"),
	} {
		if err := os.WriteFile(filepath.Join(guide, name), []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	p.runCommand(guide, nil, "node", tsc)
	if out := p.runCommand(guide, env, "node", "payout.js"); !strings.Contains(out, "taken: ") ||
		!strings.Contains(out, "CREDITED 250 USDC\n") {
		p.Errorf("payout.ts: got %s", out)
	}

	// Its receiver gets the event of the payment that the other program made.
	address := freeAddress(p.T)
	c, err := client.New(p.info.BaseURL, p.info.APIKey)
	if err != nil {
		p.Fatal(err)
	}
	endpoint, err := c.CreateWebhookEndpoint(p.ctx, client.EndpointRequest{URL: "http://" + address + "/hooks"})
	if err != nil {
		p.Fatal(err)
	}
	_, number, _ := strings.Cut(address, ":")
	received := p.startProgram(
		guide, []string{"WEBHOOK_SECRET=" + endpoint.Secret, "PORT=" + number}, "node", "receiver.js",
	)
	p.waitListening(address)
	_, err = c.CreateWithdrawal(p.ctx, client.WithdrawRequest{
		MintID: 1, CustomerID: "user_42", Amount: "20000", ToAddress: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
		IdempotencyKey: "for-the-receiver",
	})
	if err != nil {
		p.Fatal(err)
	}
	p.waitUntil(
		"the receiver in TypeScript has the payment",
		func() bool { return strings.Contains(received.String(), "on its way: wd_") },
	)
}

// The table of finality has the chains of the catalogue, and no others.
func TestTheGuideTellsEveryChainsFinality(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(docs.Integrate, "## When a deposit is final\n")
	if section, _, found = strings.Cut(section, "\n## "); !found {
		t.Fatal("docs/integrate.md has no section about finality")
	}
	var told []string
	for _, m := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(
		strings.Join(regexp.MustCompile(`(?m)^\|.*$`).FindAllString(section, -1), "\n"), -1,
	) {
		told = append(told, m[1])
	}
	var known []string
	for _, n := range catalogue.List() {
		if n.Network == chain.Mainnet {
			known = append(known, string(n.Chain))
		}
	}
	slices.Sort(told)
	slices.Sort(known)
	if !slices.Equal(told, known) {
		t.Errorf("got %v in the guide, want the chains of the catalogue, %v", told, known)
	}
}
