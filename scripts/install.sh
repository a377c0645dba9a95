#!/bin/sh
# Installs what scripts/release made, from a folder or an address. Everything is a function, so that half of this file does nothing.
set -eu

help() {
  cat <<'END'
Install a released lagstop: the static binary, manual pages and shell completions.
Their SHA-256 is checked first. This needs no compiler and no package manager.

  install.sh [FROM] [--prefix DIRECTORY] [--sha256 SUM]
  install.sh --uninstall [--prefix DIRECTORY]

FROM         A folder with the files of the release, or the https:// address that they are below
             [default: the folder of install.sh]
--prefix     Where to install [default: /usr/local]
--sha256     The SHA-256 that the file SHA256SUMS must have, for a FROM that you do not trust
--uninstall  Remove what install.sh installed below the prefix

Exit codes: 0 done, 1 failed, 2 wrong usage
END
}

say() { printf 'install.sh: %s\n' "$*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
misused() { printf 'install.sh: %s. See install.sh --help\n' "$*" >&2; exit 2; }
has() { command -v "$1" >/dev/null 2>&1; }

main() {
  umask 022
  export LC_ALL=C
  from='' prefix=/usr/local pinned='' task=install
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) help && exit 0 ;;
      --uninstall) task=uninstall ;;
      --prefix | --sha256)
        [ $# -gt 1 ] || misused "$1 needs a value"
        if [ "$1" = --prefix ]; then prefix=${2%/}; else pinned=$2; fi
        shift
        ;;
      -*) misused "there is no option $1" ;;
      *)
        [ -z "$from" ] || misused "there is one FROM, and $1 is another"
        from=$1
        ;;
    esac
    shift
  done
  case $prefix in /*) ;; *) misused "--prefix takes a path from the root on, such as /usr/local" ;; esac
  [ -z "$pinned" ] || is_sha256 "$pinned" || misused "--sha256 takes 64 digits from 0 to 9 and a to f"
  installed=$prefix/share/lagstop/installed
  if [ $task = uninstall ]; then
    [ -z "$from$pinned" ] || misused "--uninstall takes --prefix alone"
    uninstall
    return
  fi
  if [ -z "$from" ]; then
    case $0 in */install.sh | install.sh) from=$(dirname "$0") ;; *) misused "FROM is missing" ;; esac
  fi
  install
}

is_sha256() {
  case $1 in *[!0-9a-f]*) return 1 ;; esac
  [ ${#1} = 64 ]
}

# The SHA-256 of file $1, in hex.
sha256_of() {
  if has sha256sum; then
    sum=$(sha256sum <"$1")
  elif has openssl; then
    sum=$(openssl dgst -sha256 -r <"$1")
  else
    fail "there is no sha256sum and no openssl to check the files with. Install one of them"
  fi
  printf '%s\n' "${sum%% *}"
}

# Brings file $1 of the release to $2.
get() {
  case $from in
    https://*) download "$1" "$2" ;;
    http://*)
      [ -n "$pinned" ] || fail "anybody on the way can change what comes over http://. Use https://, or give --sha256"
      download "$1" "$2"
      ;;
    *)
      [ -f "$from/$1" ] || fail "there is no $1 in $from. Name the folder or the https:// address of the release"
      cp "$from/$1" "$2" || fail "$from/$1 cannot be read (above)"
      ;;
  esac
}

download() {
  if has curl; then
    curl --fail --silent --show-error --location --proto "=${from%%://*}" --output "$2" "${from%/}/$1"
  elif ! has wget; then
    fail "there is no curl and no wget. Download the files of the release, and name their folder"
  elif [ -z "$pinned" ] && wget --help 2>&1 | grep -q BusyBox; then
    fail "BusyBox's wget does not check who sends the files. Install curl, or give --sha256"
  else
    wget -q -O "$2" "${from%/}/$1"
  fi || fail "${from%/}/$1 cannot be downloaded (above)"
}

# The list has a path below the prefix in each line, and a slash after folders that were made. Uninstalling removes what it says.
check_list() {
  if grep -vqE '^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*/?$' "$1" || grep -qE '(^|/)\.\.?(/|$)' "$1"; then
    fail "$1 is not as install.sh writes it. Nothing was changed"
  fi
}

# Removes what list $1 has and list $2 has not; folders only where they are empty, inner ones first.
remove() {
  sort -r "$1" | while read -r path; do
    ! grep -qxF "$path" "$2" || continue
    case $path in
      */) rmdir "$prefix/$path" 2>/dev/null || true ;;
      *) rm -f "$prefix/$path" ;;
    esac
  done
}

uninstall() {
  [ -f "$installed" ] || fail "install.sh has not installed anything below $prefix. Give the --prefix of then"
  [ -w "${installed%/*}" ] || fail "you may not write to $prefix. Run this as root"
  check_list "$installed"
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  cp "$installed" "$stage/before"
  remove "$stage/before" /dev/null
  say "removed lagstop from $prefix"
}

# Notes that file $1 of the tar ball, with the mode $3, is to be $2 below the prefix.
plan() {
  [ -f "$unpacked/$1" ] || fail "there is no $1 in $archive. Nothing was installed"
  if [ -e "$prefix/$2" ] && ! grep -qxF "$2" "$stage/before"; then
    fail "$prefix/$2 is there, and install.sh did not put it there. Remove it, or give another --prefix"
  fi
  printf '%s %s %s\n' "$1" "$2" "$3" >>"$stage/plan"
  printf '%s\n' "$2" >>"$stage/after"
}

# Makes folder $1 below the prefix, and lists what was not there.
make_folder() {
  [ ! -d "$prefix/$1" ] || return 0
  case $1 in */*) make_folder "${1%/*}" ;; esac
  mkdir "$prefix/$1"
  printf '%s/\n' "$1" >>"$stage/after"
}

install() {
  [ "$(uname -s)" = Linux ] || fail "lagstop runs on Linux, and this is $(uname -s)"
  case $(uname -m) in
    x86_64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is a lagstop for x86-64 and for 64-bit Arm, and this is $(uname -m)" ;;
  esac
  new_prefix=''
  [ -d "$prefix" ] || new_prefix=$prefix
  # Below the prefix, so that moving a file to its place is one step, and so that what is there may be run.
  if ! mkdir -p "$prefix" 2>/dev/null || ! stage=$(mktemp -d "$prefix/.lagstop.XXXXXX" 2>/dev/null); then
    fail "you may not write to $prefix. Run this as root, or give another --prefix"
  fi
  trap 'rm -rf "$stage"; [ -z "$new_prefix" ] || rmdir "$new_prefix" 2>/dev/null || true' EXIT
  trap 'exit 1' HUP INT TERM

  get SHA256SUMS "$stage/SHA256SUMS"
  found=$(sha256_of "$stage/SHA256SUMS")
  [ "${pinned:-$found}" = "$found" ] || fail "SHA256SUMS is not the one that --sha256 names. Nothing was installed"
  line=$(grep -E "^[0-9a-f]{64} [ *]lagstop-[0-9A-Za-z.+~-]+-$machine-linux\.tar\.gz\$" "$stage/SHA256SUMS") ||
    fail "SHA256SUMS lists no lagstop for $machine. Nothing was installed"
  [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "SHA256SUMS lists several lagstops for $machine. Nothing was installed"
  archive=${line##*[ *]}
  get "$archive" "$stage/archive"
  found=$(sha256_of "$stage/archive")
  [ "$found" = "${line%% *}" ] || fail "$archive is not what SHA256SUMS lists: its SHA-256 is $found. Nothing was installed"

  unpacked=$stage/${archive%.tar.gz}
  gzip -dc "$stage/archive" | tar -xof - -C "$stage" || fail "$archive cannot be unpacked (above). Nothing was installed"
  version=$("$unpacked/lagstop" --version) || fail "this lagstop does not start here (above). Nothing was installed"

  : >"$stage/before"
  [ ! -f "$installed" ] || cp "$installed" "$stage/before"
  check_list "$stage/before"
  plan lagstop bin/lagstop 755
  for page in "$unpacked"/man/*.1.gz; do plan "man/${page##*/}" "share/man/man1/${page##*/}" 644; done
  plan completions/lagstop.bash share/bash-completion/completions/lagstop 644
  plan completions/_lagstop share/zsh/site-functions/_lagstop 644
  plan completions/lagstop.fish share/fish/vendor_completions.d/lagstop.fish 644
  for text in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE LICENSE-GPL-2.0; do
    plan $text "share/doc/lagstop/$text" 644
  done
  printf '%s\n' share/lagstop/installed >>"$stage/after"
  grep '/$' "$stage/before" >>"$stage/after" || true
  make_folder share/lagstop
  while read -r _ path _; do make_folder "${path%/*}"; done <"$stage/plan"

  # First all that will or may be there, so that what is interrupted can be uninstalled.
  sort -u "$stage/before" "$stage/after" >"$stage/either"
  mv "$stage/either" "$installed"
  while read -r file path mode; do
    chmod "$mode" "$unpacked/$file"
    mv -f "$unpacked/$file" "$prefix/$path"
  done <"$stage/plan"
  sort -u "$stage/after" >"$stage/now"
  remove "$stage/before" "$stage/now"
  mv "$stage/now" "$installed"
  new_prefix=''
  say "installed $version in $prefix/bin"
  case :$PATH: in *:"$prefix/bin":*) ;; *) say "$prefix/bin is not in your PATH" ;; esac
}

main "$@"
