package local

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childDir makes this binary a program that starts a cluster there and then hangs.
const childDir = "COFFER_TEST_LOCAL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		c, err := Start(context.Background(), Options{Dir: dir, Ephemeral: true, Log: quiet})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		pid, err := c.readPID()
		fmt.Println("running", pid, err)
		select {}
	}
	code := m.Run()
	if initialized.dir != "" {
		_ = os.RemoveAll(initialized.dir)
	}
	os.Exit(code)
}

// initialized is a stopped cluster; most tests start a copy of it, because initdb is slow.
var initialized struct {
	once sync.Once
	dir  string
	err  error
}

var quiet = slog.New(slog.DiscardHandler)

func TestAStoppedClusterIsThereAgain(t *testing.T) {
	t.Parallel()
	dir := copied(t)
	c := start(t, Options{Dir: dir, TCP: true})
	execute(t, c, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)`)
	first := c.URL("")
	stop(t, c)
	if alive(t, c) {
		t.Error("after Stop: got a running server, want none")
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err == nil {
		t.Error("after Stop: got a pid file, want none")
	}
	stop(t, c)

	c = start(t, Options{Dir: dir, TCP: true, Port: c.Port()})
	if got := c.URL(""); got != first {
		t.Errorf("URL: got %v, want the same as before", got)
	}
	if got := query(t, c, `SELECT n FROM kept`); got != "42" {
		t.Errorf("got %v, want 42", got)
	}
}

func TestAKilledClusterKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Dir: copied(t), TCP: true})
	execute(t, c, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)`)
	before := c.URL("")
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("after Kill: got Done open, want it closed")
	}
	if err := c.Kill(); err == nil {
		t.Error("killed twice: got no error, want one")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.URL(""); got != before {
		t.Errorf("URL: got %v, want %v", got, before)
	}
	if got := query(t, c, `SELECT n FROM kept`); got != "42" {
		t.Errorf("got %v, want 42", got)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatalf("restart of a running server: %v", err)
	}
	if got := query(t, c, `SELECT n FROM kept`); got != "42" {
		t.Errorf("after a restart: got %v, want 42", got)
	}
}

func TestAStartAfterACrashDoesNotMindItsRemains(t *testing.T) {
	t.Parallel()
	dir := copied(t)
	c := start(t, Options{Dir: dir})
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	// The process id in the pid file now belongs to another process: this test.
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "\n")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	c = start(t, Options{Dir: dir})
	if got := query(t, c, `SELECT 1`); got != "1" {
		t.Errorf("got %v, want 1", got)
	}
}

func TestASecondProgramIsRefusedTheCluster(t *testing.T) {
	t.Parallel()
	dir := copied(t)
	start(t, Options{Dir: dir})
	_, err := Start(t.Context(), Options{Dir: dir, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "another program runs this cluster") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestNothingOutlivesAKilledProgram(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(workplace(t), "child")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(line, "running %d <nil>", &pid); err != nil {
		t.Fatalf("child said %q", line)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // Killed, as the server reports.
	eventually(t, "the server ends", func() bool { return ended(pid) })
	eventually(t, "its directory goes", func() bool { _, err := os.Lstat(dir); return os.IsNotExist(err) })
}

func TestAnEphemeralClusterLeavesNothing(t *testing.T) {
	t.Parallel()
	// The socket's path is too long here, so the socket is elsewhere; it is removed as well.
	dir := filepath.Join(workplace(t), strings.Repeat("long", 20))
	c := start(t, Options{Dir: dir, Ephemeral: true})
	socket := c.socket
	if socket == dir {
		t.Fatalf("got the socket in %s, want it elsewhere", socket)
	}
	if got := query(t, c, `SELECT 1`); got != "1" {
		t.Errorf("got %v, want 1", got)
	}
	stop(t, c)
	for _, path := range []string{dir, socket} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want it gone", path, err)
		}
	}
}

func TestTheServerIsPrivate(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Dir: workplace(t)})
	if got := query(t, c, `SELECT current_setting('listen_addresses')`); got != "" {
		t.Errorf("without TCP: got listening on %q, want nothing", got)
	}
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := query(t, c, `SELECT current_setting('`+setting+`')`); got != "on" {
			t.Errorf("%s: got %v, want on", setting, got)
		}
	}
	if got := query(
		t, c, `SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules`,
	); got != "scram-sha-256" {
		t.Errorf("login methods: got %v, want scram-sha-256", got)
	}
	if got := query(t, c,
		`SELECT string_agg(rolname || ':' || rolsuper || rolbypassrls || rolinherit || rolcreaterole, ' ' ORDER BY rolname)
		FROM pg_roles WHERE rolname ~ '^coffer'`); got != "coffer:falsefalsefalsefalse coffer_owner:falsefalsetruetrue" {
		t.Errorf("roles: got %v", got)
	}
	for _, name := range []string{"data", configName} {
		info, err := os.Stat(c.dirPath(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&0o077 != 0 {
			t.Errorf("%s: got mode %v, want it closed to others", name, info.Mode())
		}
	}

	tcp := start(t, Options{Dir: copied(t), TCP: true})
	if got := query(t, tcp, `SELECT current_setting('listen_addresses')`); got != "127.0.0.1" {
		t.Errorf("with TCP: got listening on %q, want 127.0.0.1", got)
	}
	conf, err := pgx.ParseConfig(tcp.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	conf.Password = "guess"
	if conn, err := pgx.ConnectConfig(t.Context(), conf); err == nil {
		conn.Close(t.Context())
		t.Error("wrong password: got a connection, want none")
	}
}

func TestATakenPortIsSaid(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), Options{Dir: copied(t), TCP: true, Port: l.Addr().(*net.TCPAddr).Port, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("got %v, want that the address is in use", err)
	}
}

func TestADirectoryOutOfReachIsReplacedAndSaid(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(workplace(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	wanted := filepath.Join(closed, "pg")
	if got := blockingParent(wanted, os.Getuid()); got != "" {
		t.Errorf("for its owner: got blocked by %s, want reachable", got)
	}
	const stranger = 54321
	if got := blockingParent(wanted, stranger); got != closed {
		t.Errorf("for a stranger: got blocked by %q, want %s", got, closed)
	}
	if os.Getuid() != 0 {
		return // Only root has to give its directory to another user.
	}
	var said strings.Builder
	c := start(t, Options{Dir: wanted, Ephemeral: true, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if strings.HasPrefix(c.Dir(), closed) {
		t.Errorf("got %s, want another place", c.Dir())
	}
	if !strings.Contains(said.String(), wanted) || !strings.Contains(said.String(), c.Dir()) {
		t.Errorf("got log %q, want both places named", said.String())
	}
	stop(t, c)
}

// Not parallel: a newly written program cannot be started while another test's fork still has it
// open.
func TestBinariesOfTheRightVersionAreFound(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9", "15", "17", "18"} {
		bin := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"initdb", "postgres"} {
			if version == "18" && name == "postgres" {
				continue // Client tools only.
			}
			script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + ".4 (Somewhere)'\n"
			if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, want := range map[string]int{
		"/usr/lib/postgresql/15/bin": 15, "/opt/homebrew/opt/postgresql@17/bin": 17, "/none": 0,
	} {
		if got := versionIn(path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	// The directory's own name has digits as well; the last part counts.
	patterns := []string{filepath.Join(root, "*", "bin")}
	got := binariesIn(patterns)
	if len(got) != 3 || got[0] != filepath.Join(root, "17", "bin") || got[2] != filepath.Join(root, "9", "bin") {
		t.Errorf("got %v, want 17, 15 and 9", got)
	}
	if bin, err := binariesFor("15", got[0], patterns); err != nil || bin != filepath.Join(root, "15", "bin") {
		t.Errorf("for data of 15: got %v, %v, want its binaries", bin, err)
	}
	if bin, err := binariesFor("16", got[0], patterns); err == nil || !strings.Contains(err.Error(), "PostgreSQL 16") {
		t.Errorf("for data of 16: got %v, %v, want an error that names it", bin, err)
	}
}

func TestWithoutBinariesTheErrorSaysWhatToInstall(t *testing.T) {
	defer func(before []string) { binaryPatterns = before }(binaryPatterns)
	binaryPatterns = nil
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(t.Context(), Options{Dir: workplace(t), Log: quiet}); err == nil ||
		!strings.Contains(err.Error(), "apt install postgresql") {
		t.Errorf("got %v, want how to install", err)
	}
}

func start(t *testing.T, opts Options) *Cluster {
	t.Helper()
	if opts.Log == nil {
		opts.Log = quiet
	}
	c, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// copied returns a directory that has a cluster already.
func copied(t *testing.T) string {
	t.Helper()
	i := &initialized
	i.once.Do(func() {
		if i.dir, i.err = os.MkdirTemp(memory(), "coffer-local-"); i.err != nil {
			return
		}
		var c *Cluster
		if c, i.err = Start(context.Background(), Options{Dir: i.dir, Log: quiet}); i.err == nil {
			i.err = c.Stop()
		}
	})
	if i.err != nil {
		t.Fatalf("make a cluster to copy: %v", i.err)
	}
	dir := workplace(t)
	if output, err := exec.Command("cp", "-Rp", i.dir+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy a cluster: %v: %s", err, output)
	}
	return dir
}

// memory returns a directory in memory where the machine has one: on a disk under other load each
// start and stop takes seconds.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// workplace returns a directory that the server's user can reach; t.TempDir is closed to it in some
// versions of Go.
func workplace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "coffer-local-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func execute(t *testing.T, c *Cluster, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.SuperURL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, c *Cluster, sql string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.SuperURL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), `SELECT (`+sql+`)::text`).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func alive(t *testing.T, c *Cluster) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.SuperURL(""))
	if err == nil {
		conn.Close(context.Background())
	}
	return err == nil
}

// ended reports that the process is gone, or is a zombie that its parent has not collected yet.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come true: %s", what)
		}
		<-tick.C
	}
}
