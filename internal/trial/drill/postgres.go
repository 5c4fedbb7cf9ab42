package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferpay/coffer/internal/pg/local"
)

// keeper is a way to back a cluster up and to restore it, as the runbook has it.
type keeper interface {
	backup(ctx context.Context, h *house, to string) error
	// restore finds the server stopped and its data moved away, and leaves it running.
	restore(ctx context.Context, h *house, from string) error
}

// data is the folder of the server's data, DATA in the runbook.
func (h *house) data() string { return filepath.Join(h.world.Database().Dir(), "data") }

// tool runs one of PostgreSQL's programs. as is who runs it: nil for us.
func tool(ctx context.Context, as *syscall.Credential, name string, args ...string) error {
	bin, err := local.Binaries()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return quiet(cmd)
}

func quiet(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &out)
	}
	return nil
}

// owner is whose the server's files are: it refuses root's.
func owner(path string) (*syscall.Credential, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil, nil
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}

// baseBackup is pg_basebackup with the write-ahead log.
type baseBackup struct{}

func (baseBackup) backup(ctx context.Context, h *house, to string) error {
	return tool(ctx, nil, "pg_basebackup", "--dbname", h.world.Database().SuperURL(""), "--pgdata", to,
		"--format", "tar", "--wal-method", "stream", "--checkpoint", "fast")
}

func (baseBackup) restore(ctx context.Context, h *house, from string) error {
	wal := filepath.Join(h.data(), "pg_wal")
	for _, part := range [][]string{{"base.tar", h.data()}, {"pg_wal.tar", wal}} {
		if err := os.MkdirAll(part[1], 0o700); err != nil {
			return err
		}
		if err := quiet(exec.CommandContext(ctx, "tar", "-xf", filepath.Join(from, part[0]), "-C", part[1])); err != nil {
			return err
		}
	}
	as, err := owner(h.world.Database().Dir())
	if err != nil {
		return err
	}
	if as != nil {
		if err := quiet(exec.CommandContext(ctx, "chown", "-R", fmt.Sprintf("%d:%d", as.Uid, as.Gid), h.data())); err != nil {
			return err
		}
	}
	return h.world.Database().Restart(ctx)
}

// dump is pg_dump with the roles, restored into an empty cluster.
type dump struct{}

func (dump) backup(ctx context.Context, h *house, to string) error {
	super := h.world.Database().SuperURL
	return errors.Join(
		os.Mkdir(to, 0o700),
		tool(ctx, nil, "pg_dumpall", "--dbname", super(""), "--roles-only", "--file", filepath.Join(to, "roles.sql")),
		tool(ctx, nil, "pg_dump", "--dbname", super(local.Database), "--format", "custom", "--file", filepath.Join(to, "coffer.dump")),
	)
}

func (dump) restore(ctx context.Context, h *house, from string) error {
	cluster := h.world.Database()
	super, err := url.Parse(cluster.SuperURL(""))
	if err != nil {
		return err
	}
	password, _ := super.User.Password()
	as, err := owner(cluster.Dir())
	if err != nil {
		return err
	}
	secret := filepath.Join(cluster.Dir(), "secret")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)
	if as != nil {
		if err := os.Chown(secret, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	err = tool(ctx, as, "initdb", "--pgdata", h.data(), "--username", super.User.Username(), "--pwfile", secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--data-checksums")
	if err != nil {
		return err
	}
	if err := cluster.Restart(ctx); err != nil {
		return err
	}
	// The roles file makes the superuser as well, who is there: that one line fails.
	return errors.Join(
		tool(ctx, nil, "psql", "--dbname", cluster.SuperURL(""), "--quiet", "--file", filepath.Join(from, "roles.sql")),
		tool(ctx, nil, "createdb", "--maintenance-db", cluster.SuperURL(""), "--owner", local.Owner, local.Database),
		tool(ctx, nil, "pg_restore", "--exit-on-error", "--dbname", cluster.SuperURL(local.Database), filepath.Join(from, "coffer.dump")),
	)
}

// goBack stops the server, moves its data away and restores a backup.
func (h *house) goBack(ctx context.Context, k keeper, from string) error {
	if err := h.world.Database().Stop(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		lost := fmt.Sprintf("%s.lost%d", h.data(), n)
		if _, err := os.Stat(lost); errors.Is(err, os.ErrNotExist) {
			if err := os.Rename(h.data(), lost); err != nil {
				return err
			}
			return k.restore(ctx, h, from)
		}
	}
}
