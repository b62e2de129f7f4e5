# SPDX-License-Identifier: Apache-2.0
# Source this file to use the installation that it is in:  . /path/to/set_env.sh
#
# It works in bash, zsh, dash and other POSIX shells, is safe under `set -euo pipefail`, and may be sourced twice. It is
# installed as set_env.sh and as bin/setenv.bash, because scripts written for CANN source either one. `cannon env`
# prints the variables and their values. Names that begin with _cannon_ are unset at the end.

_cannon_folder() { # prints the folder of the sourced file; $1 is its path if the shell gives it
  _cannon_file=$1
  if [ -z "$_cannon_file" ]; then
    # dash gives a sourced file no path to itself, but has the file open meanwhile.
    for _cannon_fd in "/proc/$_cannon_pid/fd"/*; do
      _cannon_target=$(readlink "$_cannon_fd" || :)
      case $_cannon_target in */set_env.sh | */setenv.bash) _cannon_file=$_cannon_target ;; esac
    done
  fi
  [ -n "$_cannon_file" ] && cd "$(dirname "$_cannon_file")" >/dev/null && pwd
}

_cannon_setup() {
  _cannon_pid=$(exec sh -c 'echo "$PPID"') # of this shell; in a subshell, $$ is another's
  if ! _cannon_here=$(CDPATH='' && _cannon_folder "$1"); then
    echo "set_env.sh: cannot find the folder of this file; source it from bash, or use:" \
      "eval \"\$(PREFIX/bin/cannon env)\"" >&2
    return 1
  fi
  for _cannon_tool in "$_cannon_here/bin/cannon" "$_cannon_here/cannon"; do
    if [ -x "$_cannon_tool" ]; then
      _cannon_exports=$("$_cannon_tool" env) || return 1
      eval "$_cannon_exports"
      _cannon_file=$(dirname "$_cannon_tool")/../share/bash-completion/completions/cannon
      case $-${BASH_VERSION:+b} in *i*b) [ ! -r "$_cannon_file" ] || . "$_cannon_file" ;; esac
      return 0
    fi
  done
  echo "set_env.sh: $_cannon_here/bin/cannon is missing" >&2
  return 1
}

if [ -n "${ZSH_VERSION:-}" ]; then
  _cannon_setup "$0" && _cannon_status=0 || _cannon_status=1
else
  _cannon_setup "${BASH_SOURCE:-}" && _cannon_status=0 || _cannon_status=1
fi
unset -f _cannon_folder _cannon_setup
unset -v _cannon_pid _cannon_here _cannon_tool _cannon_exports _cannon_file
if [ "$_cannon_status" -ne 0 ]; then
  unset -v _cannon_status
  return 1
fi
unset -v _cannon_status
