package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created string `json:"created"`
	platform
	Config settings `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []history `json:"history"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// layout is the content of an OCI image layout: files by name.
type layout map[string][]byte

// add stores a blob.
func (l layout) add(mediaType string, content []byte) descriptor {
	sum := hexSum(content)
	l["blobs/sha256/"+sum] = content
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
}

func (l layout) addJSON(mediaType string, v any) (descriptor, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, content), nil
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// writeImage writes an archive with one image for several platforms, each PLATFORM=ROOT, the directory of
// its files.
func writeImage(out, dockerfile string, from source, roots []string) error {
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return err
	}
	run, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", dockerfile, err)
	}
	l, err := assemble(run, from, roots)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, from.time)
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(l.write(file, at), file.Close())
}

// assemble returns the layout of an image.
func assemble(run settings, from source, roots []string) (layout, error) {
	about := map[string]string{
		"org.opencontainers.image.title":    "zkd",
		"org.opencontainers.image.version":  from.version,
		"org.opencontainers.image.revision": from.commit,
		"org.opencontainers.image.created":  from.time,
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	run.Labels = about
	l := layout{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	index := manifest{SchemaVersion: 2, MediaType: typeIndex, Annotations: about}
	for _, r := range roots {
		name, root, ok := strings.Cut(r, "=")
		system, architecture, two := strings.Cut(name, "/")
		if !ok || !two {
			return nil, fmt.Errorf("%s: want OS/ARCHITECTURE=ROOT", r)
		}
		d, err := l.addPlatform(platform{architecture, system}, root, run, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r, err)
		}
		index.Manifests = append(index.Manifests, d)
	}
	top, err := l.addJSON(typeIndex, index)
	if err != nil {
		return nil, err
	}
	// Podman and Skopeo take the name from the first, containerd and Docker from the second.
	top.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": from.version,
		"io.containerd.image.name":          "docker.io/library/zkd:" + from.version,
	}
	l["index.json"], err = json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}})
	return l, err
}

// addPlatform stores the image of one platform, of one layer, and returns the descriptor of its manifest.
func (l layout) addPlatform(p platform, root string, run settings, from source) (descriptor, error) {
	at, err := time.Parse(time.RFC3339, from.time)
	if err != nil {
		return descriptor{}, err
	}
	files, err := layer(root, run, at)
	if err != nil {
		return descriptor{}, err
	}
	var compressed bytes.Buffer
	z, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := z.Write(files); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	c := imageConfig{Created: from.time, platform: p, Config: run, History: []history{{from.time, "deploy/docker/rootfs.sh"}}}
	c.RootFS.Type = "layers"
	c.RootFS.DiffIDs = []string{"sha256:" + hexSum(files)}
	config, err := l.addJSON(typeConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Config: &config, Layers: []descriptor{l.add(typeLayer, compressed.Bytes())}}
	d, err := l.addJSON(typeManifest, m)
	d.Platform = &p
	return d, err
}

// layer returns a tar archive of the files below root. They belong to root, and volumes to the user of
// the image.
func layer(root string, run settings, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		h, err := header(path, e)
		if err != nil {
			return err
		}
		h.Name, h.ModTime = filepath.ToSlash(name), at
		if _, ok := run.Volumes["/"+h.Name]; ok {
			if h.Uid, h.Gid, err = ids(run.User); err != nil {
				return err
			}
		}
		if e.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		return copyFile(w, path)
	})
	return b.Bytes(), errors.Join(err, w.Close())
}

// header describes a file without what differs between two builds: owners and times.
func header(path string, e fs.DirEntry) (*tar.Header, error) {
	info, err := e.Info()
	if err != nil {
		return nil, err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return nil, err
		}
	}
	full, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	if full.Typeflag == tar.TypeSymlink {
		full.Mode = 0o777 // other systems have others
	}
	return &tar.Header{Typeflag: full.Typeflag, Linkname: target, Mode: full.Mode, Size: full.Size}, nil
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// ids reads USER:GROUP.
func ids(user string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(user, ":")
	uid, errU := strconv.Atoi(u)
	gid, errG := strconv.Atoi(g)
	if err := errors.Join(errU, errG); err != nil {
		return 0, 0, fmt.Errorf("USER %s: want two numbers, since the image has volumes: %w", user, err)
	}
	return uid, gid, nil
}

// write writes the layout as an archive, its files in order.
func (l layout) write(out io.Writer, at time.Time) error {
	w := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(l)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(l[name])), ModTime: at}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(l[name]); err != nil {
			return err
		}
	}
	return w.Close()
}
