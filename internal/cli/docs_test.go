package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// sample returns a block of docs/running.md, by the name after its language.
func sample(t *testing.T, name string) string {
	t.Helper()
	return sampleOf(t, "../../docs/running.md", name)
}

func sampleOf(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)\n```[a-z]+ " + regexp.QuoteMeta(name) + "\n(.*?)\n```\n").
		FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no sample %s", file, name)
	}
	return m[1]
}

// The two sides of a signer on its own host, as in its runbook.
func TestTheSamplesOfTheSignersRunbookAreTaken(t *testing.T) {
	t.Parallel()
	const runbook = "../../docs/runbooks/signer-host.md"
	dir := t.TempDir()
	path := filepath.Join(dir, "signer.toml")
	if err := os.WriteFile(path, []byte(sampleOf(t, runbook, "signer.toml")), 0o600); err != nil {
		t.Fatal(err)
	}
	if conf, err := app.ReadSignerConfig(path); err != nil || len(conf.Signer.Serve.Clients) != 4 {
		t.Errorf("signer.toml: got %+v %v, want it taken", conf.Signer.Serve, err)
	}
	// The other side is part of a configuration: the sample without its socket.
	whole := regexp.MustCompile(`(?s)\[signer\]\n.*?\n\n`).
		ReplaceAllString(sample(t, "coffer.toml"), sampleOf(t, runbook, "coffer.toml")+"\n\n")
	for name, text := range map[string]string{
		"coffer.toml": whole, "secrets/database-url": "postgres://coffer:pw@db/coffer",
		"secrets/owner-url": "postgres://o:pw@db/coffer",
		"secrets/ethereum":  "https://one.example.com https://two.example.net",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, err := run(t, "config", "check", "--roles", "dispatch", filepath.Join(dir, "coffer.toml")); code != 0 {
		t.Errorf("coffer.toml: got %q, want it sound", err)
	}
}

// The program accepts what a person copies out of the document.
func TestTheSamplesOfTheDocumentAreTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf := write("coffer.toml", sample(t, "coffer.toml"))
	if code, _, err := run(t, "config", "check", conf); code != 1 || !strings.Contains(err, "database.url_file") ||
		!strings.Contains(err, "chains.ETHEREUM.endpoints_file") {
		t.Errorf("without its files: got %d %q, want 1 and each file named", code, err)
	}
	write("secrets/database-url", "postgres://coffer:pw@db.internal/coffer?sslmode=verify-full\n")
	write("secrets/owner-url", "postgres://coffer_owner:pw@db.internal/coffer?sslmode=verify-full\n")
	write("secrets/ethereum", "https://one.example.com\nhttps://two.example.net\nhttps://three.example.org\n")
	if code, out, err := run(t, "config", "check", conf); code != 0 || !strings.Contains(out, "is valid") {
		t.Errorf("got %d %q, want 0 and that it is sound", code, err)
	}
	if code, out, err := run(t, "config", "check", write("api.toml", sample(t, "api.toml"))); code != 0 ||
		!strings.Contains(out, "is valid") {
		t.Errorf("api.toml: got %d %q, want it sound", code, err)
	}
	if _, err := app.ReadSignerConfig(write("signer.toml", sample(t, "signer.toml"))); err != nil {
		t.Errorf("signer.toml: got %v, want it taken", err)
	}
	if _, err := signpolicy.Parse([]byte(sample(t, "policy"))); err != nil {
		t.Errorf("policy: got %v, want it taken", err)
	}
}

// Every quoted command in a document is one of the program's, with its options.
func TestTheCommandsOfTheDocumentsAreTaken(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(commands))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("(?m)^ {4,}coffer ([^#\n]*)|`coffer\\s([^`]*)`")
	for _, file := range []string{
		"../../docs/runbooks/restore.md",
		"../../docs/runbooks/alerts.md", "../../docs/runbooks/signer-host.md", "../../docs/running.md",
		"../../docs/operator.md", "../../docs/screening.md", "../../docs/testing.md",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := quoted.FindAllStringSubmatch(string(text), -1)
		if len(all) == 0 {
			t.Errorf("%s quotes no command", file)
		}
		for _, m := range all {
			if wrong := taken(parser, strings.Fields(m[1]+m[2])); wrong != "" {
				t.Errorf("%s: %s: %s", file, m[0], wrong)
			}
		}
	}
}

// taken returns the part of a command line that the program does not have; "" if it has all.
// Alternatives have a bar between them.
func taken(parser *kong.Kong, words []string) string {
	node := parser.Model.Node
	for _, word := range words {
		if strings.HasPrefix(word, "--") {
			for option := range strings.SplitSeq(word, "|") {
				name, _, _ := strings.Cut(strings.TrimPrefix(option, "--"), "=")
				if !slices.ContainsFunc(
					slices.Concat(node.AllFlags(false)...), func(f *kong.Flag) bool { return f.Name == name },
				) {
					return "got no option --" + name
				}
			}
			continue
		}
		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool {
			return n.Type == kong.CommandNode && slices.Contains(strings.Split(word, "|"), n.Name)
		})
		if at >= 0 {
			node = node.Children[at]
		} else if len(node.Children) > 0 && node.DefaultCmd == nil {
			return "got no command " + word
		}
	}
	if node == parser.Model.Node {
		return "names no command"
	}
	return ""
}
