#!/usr/bin/env bash
# Builds CAF core and io with -fsanitize=thread from the distribution's source package, once, and prints the prefix.
# Debian's own libraries are not instrumented: the thread sanitizer would miss their synchronisation and report races
# that are not there. Needs cmake, ninja and g++; takes about eight minutes the first time.
#
# The sources of the machine are read, never changed: a private copy with `Types: deb-src` is used for this alone.
set -euo pipefail

package=$(dpkg-query -W -f '${source:Package}' libcaf-dev)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/caf-tsan
version=$(dpkg-query -W -f '${source:Version}' libcaf-dev)
prefix=$cache/$version
jobs=${TROUPE_JOBS:-$(nproc)}

if [ -e "$prefix/done" ]; then
  echo "$prefix"
  exit 0
fi

work=$cache/work
rm -rf "$work"
mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial" "$work/src"

# Each `deb` line or stanza of the machine's sources becomes a `deb-src` one.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ -e "$list" ] || continue
  sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$list" >"$work/sources/$(basename "$list")"
  # The main list is no part of sourceparts; give it a name that apt reads there.
  case $list in */sources.list) mv "$work/sources/sources.list" "$work/sources/main.list" ;; esac
done
for list in /etc/apt/sources.list.d/*.sources; do
  [ -e "$list" ] || continue
  sed -E 's/^Types:.*/Types: deb-src/' "$list" >"$work/sources/$(basename "$list")"
done

apt_options=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/sources"
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)" -q)
tree=$work/src/tree
mkdir "$tree"
{
  apt-get "${apt_options[@]}" update
  cd "$work/src"
  # The archive alone: Debian's packaging has no part in a build that serves one check on one machine, and some mirrors
  # keep only the archive. apt checks its sum against the signed index.
  apt-get "${apt_options[@]}" --download-only --tar-only source "$package=$version"
  tar -xf "${package}"_*.orig.tar.* --strip-components=1 -C "$tree"
} >&2

# g++ 12 wants what this header uses to be included.
buffer=$tree/libcaf_io/caf/io/network/receive_buffer.hpp
if [ -e "$buffer" ] && ! grep -q '<limits>' "$buffer"; then
  sed -i '0,/^#include/s//#include <limits>\n#include/' "$buffer"
fi

{
  cmake -S "$tree" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread -fno-omit-frame-pointer" \
    -DCMAKE_SHARED_LINKER_FLAGS=-fsanitize=thread -DCMAKE_EXE_LINKER_FLAGS=-fsanitize=thread \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCAF_NO_EXAMPLES=ON -DCAF_NO_UNIT_TESTS=ON -DCAF_NO_TOOLS=ON -DCAF_NO_OPENSSL=ON \
    -DCAF_NO_OPENCL=ON -DCAF_NO_PYTHON=ON -DCAF_NO_SUMMARY=ON
  cmake --build "$work/build" --parallel "$jobs"
  rm -rf "$prefix"
  cmake --install "$work/build"
} >&2

rm -rf "$work"
touch "$prefix/done"
echo "$prefix"
