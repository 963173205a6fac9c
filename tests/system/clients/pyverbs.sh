# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: rdma-core's own tests, and the attributes that ibv_devinfo prints.

PYVERBS_TESTS="device pd addr cq cqex cq_events mr qp qpex atomic fork parent_domain"

# pyverbs_results: reads the output of `run_tests.py -v` and prints one line for each test: ok, skip, FAIL or ERROR, the
# test's name, and ": reason".
pyverbs_results() {
	awk '
	match($0, /^test_[a-z0-9_]+ \([A-Za-z0-9_.]+\)/) {
		id = $2
		gsub(/[()]/, "", id)
		sub(/^tests\./, "", id)
	}
	id != "" && match($0, /\.\.\. (ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$/) {
		what = substr($0, RSTART + 4)
		sub(/^skipped ./, "skip ", what)
		if (what ~ /^skip/)
			what = substr(what, 1, length(what) - 1)
		reason = what
		sub(/ .*/, "", what)
		sub(/^[^ ]* ?/, "", reason)
		print what, id (reason == "" ? "" : ": " reason)
		id = ""
	}' | sort -k 2
}

# as_expected RESULTS: each result is the one in pyverbs.expect, and the reason of each skip is in pyverbs.reasons.
as_expected() {
	local here=tests/system/clients
	awk -v reasons=<(grep -v -e '^#' -e '^$' $here/pyverbs.reasons) '
	BEGIN { while ((getline line < reasons) > 0) why[++n] = "^(" line ")$" }
	/^#/ || NF == 0 { next }
	FNR == NR { want[$2] = $1; next }
	{
		name = $2
		sub(/:$/, "", name)
		reason = $0
		sub(/^[^:]*: /, "", reason)
		good = $1 == want[name] || want[name] == "may" && $1 ~ /^(ok|skip)$/
		if (!good)
			print $1 ", not " (name in want ? want[name] : "known") ": " name
		for (i = 1; $1 == "skip" && i <= n && reason !~ why[i]; i++)
			;
		if ($1 == "skip" && i > n)
			print "skipped for a reason that is not one: " name ": " reason
		seen[name] = 1
		bad += !good || ($1 == "skip" && i > n)
	}
	END {
		for (name in want)
			if (!(name in seen)) {
				print "did not run: " name
				bad++
			}
		exit bad > 0
	}' $here/pyverbs.expect "$1"
}

pyverbs() {
	local good=ok bytes modules
	[ -x /usr/bin/python3 ] || { skip "no /usr/bin/python3: pyverbs is compiled for Debian's"; return; }
	printf -v modules 'tests.test_%s ' $PYVERBS_TESTS
	start_counting
	# Buffered, the output of the tests comes after the results and not between them.
	env -u PYTHONUNBUFFERED timeout -k 2 600 tools/clients run --personality "$PERSONALITY" /usr/bin/python3 \
		"$CLIENTS/pyverbs/tests/run_tests.py" --dev diw_va --port 1 --gid 0 -v $modules > "$TMP/pyverbs" 2>&1 \
			< /dev/null
	stop_counting
	tr -d "\000" < "$TMP/pyverbs" | pyverbs_results > "$TMP/pyverbs.results"
	check "pyverbs ($PERSONALITY): passed and skipped is what tests/system/clients/pyverbs.expect says" \
		as_expected "$TMP/pyverbs.results" || good=FAILED
	[ $good = ok ] || grep -a -A 25 -E '^(ERROR|FAIL): ' "$TMP/pyverbs" | head -n 200
	bytes=$(jq -s 'map(.rx_payload) | add + 0' "$TMP/counted")
	check "... and $bytes bytes came through queue pairs" [ "${bytes:-0}" -gt 0 ] || good=FAILED
	note "rdma-core's tests" "$PYVERBS_TESTS" host "$good: $(grep -ac '^ok' "$TMP/pyverbs.results") passed, $(
		grep -ac '^skip' "$TMP/pyverbs.results") skipped"
}

# The tests of librdmacm look up a device's interface in a directory of sysfs. The tests marked "ca" in the list wait
# for CONNECT_RESPONSE. An iWARP device reports ESTABLISHED at once, and no CONNECT_RESPONSE. test_rdmacm_async_write
# reads what its peer process wrote after a message that does not come through the queue pair, so the Write's completion
# has to confirm its placement, which in personality rnic is a choice.
rdmacm_tests() {
	local good=ok list=tests/system/clients/rdmacm.expect
	[ -x /usr/bin/python3 ] || { skip "no /usr/bin/python3: pyverbs is compiled for Debian's"; return; }
	DIWARP_CONFIRM=on timeout -k 2 120 tools/clients run --personality "$PERSONALITY" --dev /usr/bin/python3 \
		"$CLIENTS/pyverbs/tests/run_tests.py" --dev diw_va --port 1 --gid 0 -v tests.test_rdmacm > \
			"$TMP/pyverbs" 2>&1 < /dev/null
	sed 's/\.\.\. Player.*/... ERROR/' "$TMP/pyverbs" | pyverbs_results > "$TMP/pyverbs.results"
	check "pyverbs, test_rdmacm ($PERSONALITY): as $list says" diff -u \
		<(awk -v who="$PERSONALITY" '!/^#/ { print ($1 == "ok" || $1 == who ? "ok" : "ERROR"), $2 }' $list) \
		"$TMP/pyverbs.results" || { good=FAILED; tail -n 60 "$TMP/pyverbs"; }
	note "rdma-core's tests" "--dev rdmacm" host "$good: $(grep -c '^ok' "$TMP/pyverbs.results") passed"
}

# capabilities: all that ibv_devinfo -v prints, except addresses and identifiers. Every run checks these values.
capabilities() {
	sed -E -e '/guid:|fw_ver:|GID\[|completion_timestamp_mask|^$/d' -e 's/[[:space:]]+/ /g' -e 's/^ //'
}
