package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/schema"
)

//go:embed defects/*.txt
var lists embed.FS

// defect is one deliberate mistake.
type defect struct {
	name   string   // what it breaks, in a few words joined by hyphens
	breaks string   // the promise, in a sentence
	first  []string // the packages whose tests should find it, nearest first
	edits  []edit
}

// edit replaces whole lines of one file of the module.
type edit struct {
	file     string
	old, new string
}

// loadDefects reads every list, in the order of the files' names.
func loadDefects() ([]defect, error) {
	names, err := fs.Glob(lists, "defects/*.txt")
	if err != nil {
		return nil, err
	}
	var defects []defect
	known := map[string]bool{}
	for _, name := range names {
		text, err := lists.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := parseDefects(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, d := range found {
			if known[d.name] {
				return nil, fmt.Errorf("%s: %s stands twice", name, d.name)
			}
			known[d.name] = true
		}
		defects = append(defects, found...)
	}
	return defects, nil
}

// contentHash identifies what is planted: the defect's name and its edits.
func (d defect) contentHash() string {
	parts := []string{d.name}
	for _, e := range d.edits {
		parts = append(parts, e.file, e.old, e.new)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// parseDefects reads defects in this form, with empty lines and lines that begin with
// # between them:
//
//	== name-of-the-defect
//	breaks: the promise that it breaks
//	first: ./internal/ledger ./internal/verify
//	@@ internal/ledger/ledger.go
//	 a line that stays
//	-a line that goes
//	+a line that comes
//
// The lines under @@ are those of a patch without its numbers. A file may be
// edited in several places and a defect may touch several files.
func parseDefects(text string) ([]defect, error) {
	var defects []defect
	var d *defect
	var e *edit
	for n, line := range strings.Split(text, "\n") {
		wrong := func(reason string) error { return fmt.Errorf("line %d: %s: %q", n+1, reason, line) }
		name, begins := strings.CutPrefix(line, "== ")
		breaks, isBreaks := strings.CutPrefix(line, "breaks: ")
		first, isFirst := strings.CutPrefix(line, "first: ")
		file, isFile := strings.CutPrefix(line, "@@ ")
		switch {
		case begins:
			defects = append(defects, defect{name: name})
			d, e = &defects[len(defects)-1], nil
		case line == "":
			e = nil
		case e == nil && strings.HasPrefix(line, "#"):
		case d == nil:
			return nil, wrong("it belongs to no defect")
		case isFile:
			d.edits = append(d.edits, edit{file: file})
			e = &d.edits[len(d.edits)-1]
		case e != nil && line[0] == ' ':
			e.old, e.new = e.old+line[1:]+"\n", e.new+line[1:]+"\n"
		case e != nil && line[0] == '-':
			e.old += line[1:] + "\n"
		case e != nil && line[0] == '+':
			e.new += line[1:] + "\n"
		case isBreaks:
			d.breaks = breaks
		case isFirst:
			d.first = strings.Fields(first)
		default:
			return nil, wrong("it is none of the lines that a defect has")
		}
	}
	for _, d := range defects {
		if d.name == "" || d.breaks == "" || len(d.first) == 0 || len(d.edits) == 0 {
			return nil, fmt.Errorf("%s: a defect has a name, what it breaks, packages and an edit", d.name)
		}
	}
	return defects, nil
}

// applyEdits returns the files with the defect, by their path under root. Every edit must match
// exactly once: a list that no longer fits the code is an error, because its defect would never be
// planted.
func (d defect) applyEdits(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range d.edits {
		text, edited := files[e.file]
		if !edited {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
			text = string(b)
		}
		switch {
		case e.old == e.new:
			return nil, fmt.Errorf("%s: the edit of %s changes nothing", d.name, e.file)
		case countOccurrences("\n"+text, "\n"+e.old) != 1:
			return nil, fmt.Errorf("%s: these lines stand %d times in %s, and should once; write the defect anew for the code as it is:\n%s",
				d.name, countOccurrences("\n"+text, "\n"+e.old), e.file, e.old)
		}
		files[e.file] = strings.Replace("\n"+text, "\n"+e.old, "\n"+e.new, 1)[1:]
	}
	return files, nil
}

// countOccurrences also counts overlaps: two equal lines share the newline between them.
func countOccurrences(text, lines string) (n int) {
	for {
		i := strings.Index(text, lines)
		if i < 0 {
			return n
		}
		n, text = n+1, text[i+1:]
	}
}

// plantFiles writes the edited files and the overlay that replaces the real ones by them, and
// returns the overlay's path. Nothing in the module changes.
func (d defect) plantFiles(root, dir string) (string, error) {
	files, err := d.applyEdits(root)
	if err != nil {
		return "", err
	}
	if err := d.plantInMigrations(root, files); err != nil {
		return "", fmt.Errorf("%s: %w", d.name, err)
	}
	replace := map[string]string{}
	for name, text := range files {
		// The file keeps its name, because the program finds embedded migrations by name.
		copied := filepath.Join(dir, "planted", name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, []byte(text), 0o644),
		); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o644)
}

// plantInMigrations adds the migrations to the files of a defect that edits the schema: a database is
// made by them. The lines stand in the part of the first migration that was drawn from the same file,
// or in a later one, which is then the last that states them.
func (d defect) plantInMigrations(root string, files map[string]string) error {
	paths, err := filepath.Glob(filepath.Join(root, "migrations", "*.sql"))
	if err != nil {
		return err
	}
	for _, e := range d.edits {
		dir, base := path.Split(e.file)
		if dir != "schema/" {
			continue
		}
		isPlanted := false
		for _, file := range slices.Backward(paths) {
			name := "migrations/" + filepath.Base(file)
			text, edited := files[name]
			if !edited {
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				text = string(b)
			}
			start, end := 0, len(text)
			if name == schema.InitialFile {
				start, end = findSection(text, base)
			}
			if countOccurrences("\n"+text[start:end], "\n"+e.old) != 1 {
				continue
			}
			section := strings.Replace("\n"+text[start:end], "\n"+e.old, "\n"+e.new, 1)[1:]
			files[name] = text[:start] + section + text[end:]
			isPlanted = true
			break
		}
		if !isPlanted {
			return fmt.Errorf("no migration has these lines of %s once:\n%s", e.file, e.old)
		}
	}
	return nil
}

// findSection returns where the first migration has the text of a file of schema/.
func findSection(text, base string) (start, end int) {
	head := "\n---- " + base + "\n\n"
	start = strings.Index(text, head)
	if start < 0 {
		return len(text), len(text)
	}
	start += len(head)
	if length := strings.Index(text[start:], "\n---- "); length >= 0 {
		return start, start + length + 1
	}
	return start, len(text)
}

// listPackages returns the folders that the defect edits, as patterns of the go command. The schema
// reaches a program through the migrations.
func (d defect) listPackages() []string {
	var dirs []string
	for _, e := range d.edits {
		dir := "./" + filepath.ToSlash(filepath.Dir(e.file))
		if dir == "./schema" {
			dir = "./migrations"
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
