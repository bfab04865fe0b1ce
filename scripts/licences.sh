# shellcheck shell=bash Sourced by the scripts that make what people take: what others wrote and is
# linked into it, to be passed on with it.

# licences PACKAGE TRIPLE FILE: writes which crates are linked into PACKAGE for TRIPLE, the licences
# that each may be had under, and their texts, each once, behind the names of those that have it.
# Needs `die`, `$target` and cargo's registry.
licences() {
  local package=$1 triple=$2 file=$3 name version place text sum linked silent=
  local -A whose=() found=()
  linked=$(mktemp)
  # What is not fetched and cannot be is told below, by name.
  cargo fetch --locked --quiet --target "$triple" 2>/dev/null || true
  # Those with a path are Fathom's own.
  cargo tree --locked --quiet -p "$package" --edges normal,no-proc-macro --target "$triple" --prefix none \
    --format '{p} {l}' | sed 's/ (\*)$//' | grep -v ' (/' | sort -u >"$linked"
  while read -r name version _; do
    place=$(compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/src/*/$name-${version#v}" | head -n 1) ||
      die "the source of $name $version, whose licence is to be packed, is not in cargo's registry: cargo fetch"
    sum=
    # Also of what a crate has taken from others, which lies as deep as that: mimalloc's is four
    # directories down.
    while read -r text; do
      sum=$(sha256sum <"$text")
      found[$sum]=$text
      [[ ", ${whose[$sum]-}" = *", $name ${version#v}, "* ]] || whose[$sum]+="$name ${version#v}, "
    done < <(find "$place" -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' \
      -o -iname 'notice*' -o -iname 'copyright*' -o -iname 'unlicense*' \) | sort)
    [ -n "$sum" ] || silent+="$name ${version#v}, "
  done <"$linked"
  # What comes with zig and is linked in as well: what its compiler calls, and musl.
  for name in "zig's runtime library|LICENSE" 'musl|lib/libc/musl/COPYRIGHT'; do
    [[ $name != musl* || $triple = *musl* ]] || continue
    text=$(compgen -G "$target/zig/lib/python3*/site-packages/ziglang/${name#*|}" | head -n 1) || true
    name=${name%|*}
    if [ -f "$text" ]; then
      sum=$(sha256sum <"$text")
      whose[$sum]+="$name, " found[$sum]=$text
    else
      echo "note: the licence of $name is not packed: zig, which brings it, is not in $target/zig" >&2
    fi
  done
  {
    echo "Linked into $package, with the licences that each may be had under:"
    echo
    cat "$linked"
    echo "the standard library of Rust: MIT OR Apache-2.0; its own texts are in LICENCES-OF-RUST.html"
    echo "zig's runtime library: MIT"
    [[ $triple != *musl* ]] || echo 'musl: MIT'
    if [ -n "$silent" ]; then
      printf '\nThese bring no text of their own (that of the same licence stands below for others): %s\n' "${silent%, }"
    fi
    for sum in "${!whose[@]}"; do echo "${whose[$sum]%, }|$sum"; done | sort |
      while IFS='|' read -r name sum; do
        printf '\n%s\n%s:\n\n' ------------------------------------ "$name" | fold -s -w 100
        cat "${found[$sum]}"
      done
  } >"$file"
  rm "$linked"
}

# licences_of_rust FILE: the texts of the standard library and of what is in it, as they come with the
# compiler; a note where they do not.
licences_of_rust() {
  local text
  text=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
  if [ -f "$text" ]; then install -m 644 "$text" "$1"
  else echo "note: the licences of Rust's standard library are not packed: there is no $text" >&2
  fi
}
