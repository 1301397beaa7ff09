#!/bin/bash
# Builds the components of Kubernetes 1.20.2 that tests/support/cluster.py runs, from Debian's own source package
# (bookworm's `kubernetes`, whose dependencies are all inside) with Debian's Go 1.19, and takes Debian's etcd.
#
#   tests/kubernetes/build_cluster.sh [folder]      default: $ENVWEAVE_K8S_BIN, else ~/.cache/ew-k8s/bin
#
# It needs the Debian mirror of this machine's apt, dpkg-dev, gcc, 3 GB of disk and some minutes; no root, and nothing
# is installed. What is there already is not built again.
set -euo pipefail

out=${1:-${ENVWEAVE_K8S_BIN:-$HOME/.cache/ew-k8s/bin}}
programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy"
mkdir -p "$out"
out=$(realpath "$out")

missing() {
    for name in etcd $programs pause; do [ -x "$out/$name" ] || echo "$name"; done
}

if [ -z "$(missing)" ]; then
    echo "all is in $out already"
    exit 0
fi
for tool in apt-get dpkg-deb dpkg-source gcc; do
    command -v "$tool" > /dev/null || { echo "not installed: $tool (dpkg-source is in dpkg-dev)" >&2; exit 1; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/build-cluster.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
say() { echo "[${SECONDS}s] $*"; }

# A state of apt of our own, with the sources of bookworm from the mirror that this machine uses.
sources=$(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2> /dev/null || true)
# shellcheck disable=SC2086
mirror=$(awk '/^URIs:/ {print $2; exit} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) {print $i; exit}}' $sources /dev/null)
[ -n "$mirror" ] || { echo "apt names no mirror here" >&2; exit 1; }
mkdir -p "$work"/apt/{sources,lists/partial,cache/archives/partial}
cat > "$work/apt/sources/bookworm.sources" <<END
Types: deb deb-src
URIs: $mirror
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
cat > "$work/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/apt/sources";
Dir::State::lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
APT::Sandbox::User "";
END
export APT_CONFIG="$work/apt.conf"
cd "$work"
apt-get -qq update
apt-get -qq download golang-1.19-go golang-1.19-src etcd-server
apt-get -qq source --download-only kubernetes
for package in golang-1.19-*.deb; do dpkg-deb -x "$package" go; done
dpkg-deb -x etcd-server_*.deb etcd
dpkg-source -x --no-check kubernetes_*.dsc src > /dev/null
say "unpacked"

install -m 755 etcd/usr/bin/etcd "$out/etcd"
gcc -Os -static -DVERSION=v3.2 -o "$out/pause" src/build/pause/linux/pause.c

export GOROOT="$work/go/usr/lib/go-1.19" GOPATH="$work/gopath" GOCACHE="$work/gocache"
export GO111MODULE=off GOPROXY=off CGO_ENABLED=0 GOFLAGS=-tags=providerless PATH="$work/go/usr/lib/go-1.19/bin:$PATH"
mkdir -p "$GOPATH/src/k8s.io"
ln -s "$work/src" "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"

# The one generated file that the source package lacks.
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' vendor/k8s.io/*/ pkg cmd plugin |
    grep -vE 'vendor/k8s.io/(code-generator|sample-apiserver|kube-openapi|gengo)/|_test.go|/testdata/' |
    xargs -n1 dirname | LC_ALL=C sort -u | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
"$work/openapi-gen" --logtostderr -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations"
say "generated"

flags="-s -w"
for package in client-go/pkg component-base; do
    for value in gitVersion=v1.20.2 gitMajor=1 gitMinor=20 gitTreeState=clean; do
        flags="$flags -X k8s.io/kubernetes/vendor/k8s.io/$package/version.$value"
    done
done
for name in $programs; do
    [ -x "$out/$name" ] && continue
    go build -ldflags "$flags" -o "$work/$name" "./cmd/$name"
    mv "$work/$name" "$out/$name"  # never half of one
    say "$name"
done
"$out/kube-apiserver" --version
