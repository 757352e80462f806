package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var from = source{"v1.2.3", strings.Repeat("0a", 20), "2026-01-02T03:04:05Z"}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNotes(t *testing.T) {
	const log = "# Changes\n\n## Unreleased\n\n- Next.\n\n## v1.2.3 - 2026-01-02\n\n- [A page](docs/x.md#y), [another](https://example.org/).\n\n## v1.2.2\n\n- Old.\n"
	for _, c := range []struct{ version, want, says string }{
		{"v1.2.3", "# zkd v1.2.3\n\n- [A page](" + repository + "/blob/v1.2.3/docs/x.md#y), [another](https://example.org/).\n", ""},
		{"v1.2.2", "# zkd v1.2.2\n\n- Old.\n", ""},
		{"v1.2", "# zkd v1.2\n\n- Next.\n", ""},
		{"0123456789ab", "# zkd 0123456789ab\n\n- Next.\n", ""},
		{"v1.3.0", "# zkd v1.3.0\n\n- Next.\n", `no section "## v1.3.0"`},
	} {
		var out, says bytes.Buffer
		if err := run([]string{"notes", "-version", c.version, write(t, "CHANGELOG.md", log)}, &out, &says); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want || (says.Len() > 0) != (c.says != "") || !strings.Contains(says.String(), c.says) {
			t.Errorf("%s: %q and %q, want %q and %q", c.version, &out, &says, c.want, c.says)
		}
	}
	if _, _, err := notes("# Changes\n\n## v1.2.2\n", "v1.2.3"); err == nil || !strings.Contains(err.Error(), "## v1.2.3") {
		t.Errorf("%v, want an error that names the section", err)
	}
}

const dockerfile = `# Comment.
FROM golang AS build
ARG STAMP
RUN make
FROM scratch
COPY --from=build /rootfs /
ENV PATH=/usr/bin A=b
USER 11:12
WORKDIR /data
VOLUME /data
EXPOSE 2181 2888
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/usr/bin/zkd", "ready"]
ENTRYPOINT ["/usr/bin/zkd"]
CMD ["container"]
`

func TestDockerfile(t *testing.T) {
	s, err := parse(dockerfile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"User":"11:12","ExposedPorts":{"2181/tcp":{},"2888/tcp":{}},"Env":["PATH=/usr/bin","A=b"],"Entrypoint":["/usr/bin/zkd"],"Cmd":["container"],` +
		`"Volumes":{"/data":{}},"WorkingDir":"/data","StopSignal":"SIGTERM",` +
		`"Healthcheck":{"Test":["CMD","/usr/bin/zkd","ready"],"Interval":10000000000,"Timeout":6000000000,"StartPeriod":30000000000}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, bad := range []string{"SHELL [\"sh\"]", "CMD zkd", "HEALTHCHECK NONE", "HEALTHCHECK --retries=3 CMD [\"x\"]"} {
		if _, err := parse("FROM scratch\n" + bad + "\n"); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v, want an error of line 2", bad, err)
		}
	}
	text, err := os.ReadFile("../../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := parse(string(text)); err != nil || s.Entrypoint == nil || s.Healthcheck == nil || len(s.Volumes) != 1 {
		t.Errorf("%+v, %v of deploy/docker/Dockerfile", s, err)
	}
}

// root makes the files of an image, their times long ago or now.
func root(t *testing.T, at time.Time) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755), os.Mkdir(filepath.Join(dir, "data"), 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o755),
		os.WriteFile(filepath.Join(dir, "usr/bin/zkd"), []byte("program"), 0o755),
		os.Symlink("zkd", filepath.Join(dir, "usr/bin/link")),
		os.Chtimes(filepath.Join(dir, "usr/bin/zkd"), at, at))
	for name, mode := range map[string]fs.FileMode{"usr": 0o755, "usr/bin": 0o755, "data": 0o755, "tmp": 0o777 | fs.ModeSticky, "usr/bin/zkd": 0o755} {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, name), mode)) // whatever the umask
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImage follows the digests from the index of an archive to the files of each platform.
func TestImage(t *testing.T) {
	archive := func(at time.Time) []byte {
		out := filepath.Join(t.TempDir(), "image.tar")
		err := run([]string{"image", "-version", from.version, "-commit", from.commit, "-time", from.time, "-dockerfile", write(t, "Dockerfile", dockerfile),
			"-o", out, "linux/amd64=" + root(t, at), "linux/arm64=" + root(t, at)}, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := archive(time.Unix(1, 0))
	if !bytes.Equal(first, archive(time.Unix(1e9, 0))) {
		t.Error("files of other times give another archive")
	}
	files := untar(t, bytes.NewReader(first))
	blob := func(d descriptor, v any) []byte {
		t.Helper()
		content := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if d.Digest != "sha256:"+hexSum(content) || d.Size != len(content) {
			t.Fatalf("%+v is not what it names: %d bytes", d, len(content))
		}
		if v != nil {
			if err := json.Unmarshal(content, v); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	var top, index manifest
	if err := json.Unmarshal(files["index.json"], &top); err != nil {
		t.Fatal(err)
	}
	blob(top.Manifests[0], &index)
	for i, architecture := range []string{"amd64", "arm64"} {
		var m manifest
		var c imageConfig
		blob(index.Manifests[i], &m)
		blob(*m.Config, &c)
		if index.Manifests[i].Platform.Architecture != architecture || c.Architecture != architecture || c.OS != "linux" || c.Config.User != "11:12" {
			t.Errorf("%+v and %+v, want those of %s", index.Manifests[i], c, architecture)
		}
		z, err := gzip.NewReader(bytes.NewReader(blob(m.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if c.RootFS.DiffIDs[0] != "sha256:"+hexSum(plain) {
			t.Errorf("the layer is not the one of the configuration")
		}
		const want = "data/ 755 11:12\ntmp/ 1777 0:0\nusr/ 755 0:0\nusr/bin/ 755 0:0\nusr/bin/link 777 0:0 zkd\nusr/bin/zkd 755 0:0"
		if got := strings.Join(listing(t, plain), "\n"); got != want {
			t.Errorf("files\n%s\nwant\n%s", got, want)
		}
	}
	for _, bad := range []string{"linux=/", "linux/amd64", "linux/amd64=/nowhere"} {
		if _, err := assemble(settings{}, from, []string{bad}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func untar(t *testing.T, in io.Reader) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// listing describes the files of an archive, in order.
func listing(t *testing.T, archive []byte) (lines []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.UTC().Format(time.RFC3339) != from.time {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %o %d:%d %s", h.Name, h.Mode, h.Uid, h.Gid, h.Linkname)))
	}
}

func TestProvenance(t *testing.T) {
	bill := func(components string) string {
		return write(t, "sbom.json", `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[`+components+`]}`)
	}
	const std = `{"type":"library","name":"std","purl":"pkg:golang/std@1.26.0"}`
	const lib = `{"type":"library","name":"lib","purl":"pkg:golang/lib@v1.0.0","properties":[{"name":"go:sum","value":"h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]}`
	artefact := write(t, "zkd.tar.gz", "abc")
	var out bytes.Buffer
	err := run([]string{"provenance", "-version", from.version, "-commit", from.commit, "-time", from.time, "-parameter", "repeat=make release A=b",
		"-sbom", bill(std), "-sbom", bill(std + "," + lib), artefact}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	// The digest of "abc" is the example of FIPS 180.
	if len(s.Subject) != 1 || s.Subject[0].Name != "zkd.tar.gz" || s.Subject[0].Digest["sha256"] != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("subject %+v", s.Subject)
	}
	d := s.Predicate.BuildDefinition
	if d.ExternalParameters["repeat"] != "make release A=b" || d.ExternalParameters["commit"] != from.commit {
		t.Errorf("parameters %v", d.ExternalParameters)
	}
	materials := d.ResolvedDependencies
	if len(materials) != 3 || materials[0].Digest["gitCommit"] != from.commit || materials[1].URI != "pkg:golang/lib@v1.0.0" ||
		materials[1].Digest["dirHash"] != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" || materials[2].URI != "pkg:golang/std@1.26.0" {
		t.Errorf("materials %+v", materials)
	}
	for _, bad := range [][]string{
		{"provenance"},
		{"provenance", "/nowhere"},
		{"provenance", "-sbom", bill(strings.Replace(lib, "h1:AA", "h1:", 1)), artefact},
		{"provenance", "-sbom", write(t, "x", "{}"), artefact},
	} {
		if err := run(bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, bad := range [][]string{nil, {"sign"}, {"notes", "-unknown"}, {"image"}} {
		if err := run(bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
