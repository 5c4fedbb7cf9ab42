package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/oasdiff/yaml3"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runs fails the test unless a command line is one of the program's.
func runs(t *testing.T, where string, words []string) {
	t.Helper()
	parser, err := kong.New(new(commands))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := taken(parser, words); wrong != "" {
		t.Errorf("%s: %v: %s", where, words, wrong)
	}
}

const installed = "/usr/local/bin/coffer"

// unit reads a systemd unit: its settings by name.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	settings := map[string][]string{}
	section := ""
	for line := range strings.Lines(deployed(t, name)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			t.Errorf("%s: got %q, want a setting in a section", name, line)
		}
		settings[key] = append(settings[key], value)
	}
	return settings
}

func TestTheUnitsRunTheProgramAndLetItDoLittle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"coffer.service", "coffer@.service", "coffer-signer.service"} {
		settings := unit(t, name)
		for _, command := range slices.Concat(settings["ExecStartPre"], settings["ExecStart"]) {
			words := strings.Fields(command)
			if words[0] != installed {
				t.Errorf("%s: got %s, want %s", name, words[0], installed)
			}
			runs(t, name, words[1:])
		}
		for key, want := range map[string]string{
			"User": "coffer", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes",
			"PrivateDevices":        "yes",
			"CapabilityBoundingSet": "", "UMask": "0077", "LimitCORE": "0", "Restart": "on-failure",
		} {
			if got := settings[key]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s: got %q, want %q", name, key, got, want)
			}
		}
	}
	signer := unit(t, "coffer-signer.service")
	for key, want := range map[string]string{
		"PrivateNetwork": "yes", "RestrictAddressFamilies": "AF_UNIX", "RuntimeDirectory": "coffer",
		"RuntimeDirectoryMode": "0700",
	} {
		if got := signer[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("the signer's unit: %s: got %q, want %q", key, got, want)
		}
	}
	// The units find each other where the sample of the configuration says.
	sample, err := app.SampleConfig(chain.Mainnet)
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.Fields(signer["ExecStart"][0])[6]
	if !strings.Contains(string(sample), `socket = "`+socket+`"`) {
		t.Errorf("got a signer at %s, want it where the sample's service looks", socket)
	}
}

func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the test above has read them; this machine has no tool that checks more
	}
	// It looks for the program that a unit starts, and this one is there.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"verify", "--man=no", "--recursive-errors=no"}
	dir := t.TempDir()
	for _, name := range []string{"coffer.service", "coffer@.service", "coffer-signer.service"} {
		path := filepath.Join(dir, strings.Replace(name, "@", "@api", 1))
		if err := os.WriteFile(
			path, []byte(strings.ReplaceAll(deployed(t, name), installed, program)), 0o600,
		); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(t.Context(), analyze, args...)
	if said, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(said), dir) {
		t.Errorf("systemd-analyze: got %v %s, want no complaint", err, said)
	}
}

// The signer on its own host answers at the address of its configuration, connects to no chain, and
// is otherwise the same unit as on the service's host.
func TestTheSignersDropInOpensItsPortAndNothingElse(t *testing.T) {
	t.Parallel()
	settings := unit(t, "coffer-signer-network.conf")
	command := settings["ExecStart"]
	if len(command) != 2 || command[0] != "" {
		t.Fatalf("got %q, want the unit's command replaced", command)
	}
	words := strings.Fields(command[1])
	runs(t, "coffer-signer-network.conf", words[1:])
	if slices.Contains(words, "--socket") || !slices.Equal(settings["IPAddressDeny"], []string{"any"}) ||
		len(settings["IPAddressAllow"]) == 0 {
		t.Errorf("got %v, want no socket, and nobody but who is named", settings)
	}
	for key := range settings {
		if !slices.Contains(
			[]string{"ExecStart", "PrivateNetwork", "RestrictAddressFamilies", "IPAddressDeny", "IPAddressAllow"}, key,
		) {
			t.Errorf("got %s, want the rest as the unit has it", key)
		}
	}
}

// composed is what the test reads of a compose file.
type composed struct {
	Services map[string]struct {
		Image       string   `yaml:"image"`
		Command     []string `yaml:"command"`
		User        string   `yaml:"user"`
		ReadOnly    bool     `yaml:"read_only"`
		NetworkMode string   `yaml:"network_mode"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		Ports       []string `yaml:"ports"`
		Volumes     []string `yaml:"volumes"`
		Secrets     []string `yaml:"secrets"`
	} `yaml:"services"`
	Secrets map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`
}

func TestTheComposeFileRunsTheProgramAndKeepsTheSeedApart(t *testing.T) {
	t.Parallel()
	var c composed
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "migrate", "signer", "serve"} {
		s, ok := c.Services[name]
		if !ok {
			t.Errorf("got no service %s", name)
			continue
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s: got secret %s without a file", name, secret)
			}
		}
		if name == "postgres" {
			continue
		}
		runs(t, "compose.yaml", s.Command)
		if s.Image != "coffer" || s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			len(s.SecurityOpt) == 0 {
			t.Errorf("%s: got %+v, want our image, not root, with nothing that it may do", name, s)
		}
	}
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if name != "serve" || !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: got port %s, want those of the service alone, on this machine", name, port)
			}
		}
		for _, v := range s.Volumes {
			seed := strings.HasPrefix(v, "./signer:") || strings.HasPrefix(v, "./journal:")
			if seed != (name == "signer") && (seed || strings.HasPrefix(v, "./coffer:") && name == "signer") {
				t.Errorf("%s: got %s, want the seed with the signer alone and nothing of the service with it", name, v)
			}
		}
		if slices.Contains(s.Secrets, "owner-url") && name != "migrate" {
			t.Errorf("%s: got the owner's login, want it with the migration alone", name)
		}
	}
	if got := c.Services["signer"].NetworkMode; got != "none" {
		t.Errorf("the signer: got network %q, want none", got)
	}
}

func TestTheImageIsTheProgramAlone(t *testing.T) {
	t.Parallel()
	text := deployed(t, "Containerfile")
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	if len(stages) != 2 || !strings.HasPrefix(stages[0][1], "golang:"+version+"-") || stages[1][1] != "scratch" {
		t.Errorf("got %v, want it built with Go %s and put into nothing", stages, version)
	}
	last := text[strings.LastIndex(text, "\nFROM "):]
	if !strings.Contains(text, "CGO_ENABLED=0") ||
		!regexp.MustCompile(`(?m)^USER [1-9]\d+:[1-9]\d+$`).MatchString(last) || strings.Contains(last, "\nRUN ") {
		t.Errorf("got %s, want a static binary, not root, no shell", text)
	}
	m := regexp.MustCompile(`(?m)^ENTRYPOINT \["/coffer"\]\nCMD \[(.*)\]$`).FindStringSubmatch(last)
	if m == nil {
		t.Fatalf("got %s, want an entry point and a command", last)
	}
	runs(t, "Containerfile", strings.Fields(strings.NewReplacer(`"`, "", ",", " ").Replace(m[1])))
}

// The script in the database's image does what the document describes for a person.
func TestTheRolesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`(?m)^\s*(CREATE (?:ROLE|DATABASE) .*?)(?: PASSWORD .*)?;$`)
	made := func(text string) (all []string) {
		for _, m := range statement.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	got, want := made(deployed(t, "roles.sh")), made(string(document))
	if len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
