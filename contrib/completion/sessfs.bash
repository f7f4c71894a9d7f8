# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completion of sessfs command lines for bash: source this file, or copy it to
# /usr/local/share/bash-completion/completions/sessfs.

_sessfs_commands='mount umount check ls cat show search append put compact rm sessions stats events mounts import export
	backup restore gc config keep setup'
_sessfs_settings='strict= exact= max_size= quota= ttl= grace= trash= pause= layout= table='
_sessfs_mount_options='ro allow_other uid= gid= umask= table= layout= strict exact exclusive durable max_size= quota= pause= ttl= grace= trash= view= threads=
	auto_unmount nonempty allow_dev allow_suid remount noexec debug'
declare -A _sessfs_options=(
	[mount]='-f -d -o'
	[check]='--repair -o'
	[ls]='-l -h --human-readable --json -o'
	[cat]='-o'
	[show]='--all -a --follow -f --html --last= -o'
	[search]='--all -a --session= --role= --since= -n --json -o'
	[append]='-o'
	[put]='-o'
	[compact]='--first= --items= --if= -o'
	[keep]='--undo --status --bind'
	[rm]='-r -o'
	[sessions]='--json --titles -t --sort= --older-than= --newer-than= --larger-than= --name= -o'
	[stats]='--json -o'
	[events]='--since= -o'
	[mounts]='--json'
	[import]='--layout= --to= --from-table= --dry-run -n --checksum -c --session= --watch --every= --delete --endpoint=
		--region= --style= --json -o'
	[export]='--force -f --layout= --dry-run -n --session= --watch --every= --delete --endpoint= --region= --style=
		--json -o'
	[umount]='-l --lazy -f --force'
	[backup]='--force --keep= --endpoint= --region= --style= --json -o'
	[setup]='--dry-run -n'
	[restore]='--force --endpoint= --region= --style= --json -o'
	[gc]='--older-than= --larger-than= --keep-last= --name= --grace= --dry-run --list --undo --json -o'
)

# Bash cuts words at "@", "=" and ":", which paths may hold: the words as they were written, up to the
# cursor.
_sessfs_whole_words() {
	local rest=$COMP_LINE next i
	words=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		next=${rest#"${rest%%[![:space:]]*}"}
		if ((i == 0)) || [[ $next != "$rest" ]]; then
			words+=("${COMP_WORDS[i]}")
		else
			words[${#words[@]} - 1]+=${COMP_WORDS[i]}
		fi
		rest=${next#"${COMP_WORDS[i]}"}
	done
}

# Names in a store: the store is the first operand, $2 the beginning of a path, $3 how much of that
# bash takes for the word; behind a sign that ends one, the next begins.
_sessfs_names() {
	local dir='' name head=${2%"${3##*[@=:]}"}
	[[ $2 == */* ]] && dir=${2%/*}/
	while IFS= read -r name; do
		name=$dir$name
		[[ $name == "$2"* ]] && COMPREPLY+=("${name#"$head"}")
	done < <(sessfs ls -- "$1" "$dir" 2>/dev/null </dev/null)
	compopt -o nospace -o filenames
}

# The operands so far, without options and their values.
_sessfs_operands() {
	local i
	operands=()
	for ((i = 2; i < ${#words[@]} - 1; i++)); do
		case ${words[i]} in
		-o) ((i++)) ;;
		-*) ;;
		*) operands+=("${words[i]}") ;;
		esac
	done
}

_sessfs() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} head='' words operands

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$_sessfs_commands help --help --version" -- "$word")
		return
	elif [[ $before == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$_sessfs_commands" -- "$word")
		return
	elif [[ $before == -o ]]; then
		[[ $word == *,* ]] && head=${word%,*},
		mapfile -t COMPREPLY < <(compgen -P "$head" -W "$_sessfs_mount_options" -- "${word##*,}")
		compopt -o nospace
		return
	elif [[ $command == sessions && ${COMP_WORDS[COMP_CWORD - 2]} == --sort || $before == --sort ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'id age size items' -- "${word#=}")
		return
	elif [[ ${COMP_WORDS[COMP_CWORD - 2]} == --layout || $before == --layout ]]; then
		[[ $command == import ]] && head='tree agentscope-files agentscope-rows'
		mapfile -t COMPREPLY < <(compgen -W "$head strands strands-snapshots claude-parts agentscope" -- "${word#=}")
		return
	elif [[ ${COMP_WORDS[COMP_CWORD - 2]} == --style || $before == --style ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'path host' -- "${word#=}")
		return
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${_sessfs_options[$command]} --help" -- "$word")
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		return
	fi
	_sessfs_whole_words
	_sessfs_operands
	case $command:${#operands[@]} in
	ls:1 | show:1 | events:1 | append:1 | put:1 | compact:1 | cat:[1-9]* | rm:[1-9]* | export:[2-9]*)
		_sessfs_names "${operands[0]}" "${words[-1]}" "$word"
		;;
	config:[1-9]*)
		mapfile -t COMPREPLY < <(compgen -W "$_sessfs_settings" -- "$word")
		compopt -o nospace
		;;
	keep:*)
		mapfile -t COMPREPLY < <(compgen -f -W 'claude cline codex copilot gemini kimi opencode pi qwen' -- "$word")
		;;
	*)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		compopt -o filenames
		;;
	esac
}
complete -F _sessfs sessfs
