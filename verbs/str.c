/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and numbers as text. */
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/fault.h"
#include "verbs/diw_cm.h"

int diw_addr_parse(const char *host, uint16_t port, struct diw_addr *addr)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM }, *res;
	int rc = getaddrinfo(host, NULL, &hints, &res);

	if (rc == EAI_MEMORY)
		return -ENOMEM;
	if (rc != 0)
		return -EINVAL;
	diw_addr_from_sockaddr(addr, res->ai_addr);
	addr->port = port;
	freeaddrinfo(res);
	return 0;
}

const char *diw_addr_str(const struct diw_addr *a, char *buf)
{
	char ip[DIW_ADDR_IP_STRLEN], scope[IF_NAMESIZE];

	diw_addr_ip_str(a, ip);
	if (diw_addr_is_v4(a))
		snprintf(buf, DIW_ADDR_STRLEN, "%s:%u", ip, a->port);
	else if (a->scope && if_indextoname(a->scope, scope))
		snprintf(buf, DIW_ADDR_STRLEN, "[%s%%%s]:%u", ip, scope, a->port);
	else
		snprintf(buf, DIW_ADDR_STRLEN, "[%s]:%u", ip, a->port);
	return buf;
}

static const char *enum_name(const char *const *names, int n, int i)
{
	return i >= 0 && i < n && names[i] ? names[i] : "unknown";
}

const char *diw_wc_status_str(int status)
{
	static const char *const names[] = {
		[DIW_WC_SUCCESS] = "success",
		[DIW_WC_LOC_PROT_ERR] = "local protection error", [DIW_WC_REM_ACCESS_ERR] = "remote access error",
		[DIW_WC_TIMEOUT] = "timeout", [DIW_WC_LOC_LEN_ERR] = "local length error",
		[DIW_WC_REM_OP_ERR] = "remote operation error", [DIW_WC_MW_BIND_ERR] = "memory window bind error",
		[DIW_WC_FLUSHED] = "flushed", [DIW_WC_LOC_QP_OP_ERR] = "refused by the kernel",
		[DIW_WC_PEER_GONE] = "the peer is gone",
	};

	return enum_name(names, sizeof names / sizeof *names, status);
}

const char *diw_wc_opcode_str(int opcode)
{
	static const char *const names[] = {
		[DIW_WC_SEND] = "send", [DIW_WC_WRITE] = "write", [DIW_WC_WRITE_RECORD] = "write-record",
		[DIW_WC_READ] = "read", [DIW_WC_RECV] = "recv", [DIW_WC_RECV_WRITE_RECORD] = "recv write-record",
		[DIW_WC_RECV_WRITE_IMM] = "recv write with immediate", [DIW_WC_FETCH_ADD] = "fetch and add",
		[DIW_WC_CMP_SWAP] = "compare and swap", [DIW_WC_BIND_MW] = "bind window",
		[DIW_WC_LOCAL_INV] = "local invalidate",
	};

	return enum_name(names, sizeof names / sizeof *names, opcode);
}

const char *diw_qp_state_str(int state)
{
	static const char *const names[] = {
		[DIW_QPS_IDLE] = "idle", [DIW_QPS_CONNECTING] = "connecting", [DIW_QPS_RTS] = "rts",
		[DIW_QPS_CLOSING] = "closing", [DIW_QPS_ERROR] = "error",
	};

	return enum_name(names, sizeof names / sizeof *names, state);
}

const char *diw_record_close_str(int close)
{
	static const char *const names[] = {
		[DIW_RECORD_COMPLETE] = "complete", [DIW_RECORD_WINDOW] = "reorder window passed",
		[DIW_RECORD_TIMEOUT] = "timeout", [DIW_RECORD_EVICTED] = "evicted",
		[DIW_RECORD_DEREG] = "memory deregistered", [DIW_RECORD_EPOCH] = "source began a new epoch",
	};

	return enum_name(names, sizeof names / sizeof *names, close);
}

const char *diw_fault_str(uint16_t fault)
{
	switch (fault) {
	case 0: return "none";
#define X(name, code, counter, text) case code: return text;
	DIW_FAULTS(X)
#undef X
	}
	return "unknown";
}

static const char *const counter_names[] = {
#define X(name, text) #name,
	DIW_COUNTERS(X)
#undef X
};

int diw_counter_count(void)
{
	return sizeof counter_names / sizeof *counter_names;
}

const char *diw_counter_name(int i)
{
	return enum_name(counter_names, diw_counter_count(), i);
}
