-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark dissector for datagram-iWARP: DDP and RDMAP over UDP (docs/ud-profile.md).
--
--   wireshark -X lua_script:tools/wireshark/diwarp.lua capture.pcapng
--   or copy it into the folder "Personal Lua Plugins" (Help, About Wireshark, Folders)
--
-- No port identifies the protocol. A datagram is datagram-iWARP if the CRC-32 at its end is good. Then every datagram
-- between the same two ports is datagram-iWARP, with a good CRC or not. A capture of an interface may show a
-- super-buffer as one long datagram. Its first segment ends where the CRC is good; the other segments except the last
-- have the same length. The dissector looks for such an end only if the datagram begins with the version bits of a
-- segment, because in a long datagram a CRC may be good by chance.

local p = Proto("diwarp", "datagram-iWARP")

local OPS = { [0] = "write", "read-request", "read-response", "send", "send-inv", "send-se", "send-se-inv", "error",
	[10] = "atomic-request", [11] = "atomic-response", [12] = "write-record", [13] = "flow", [14] = "validation" }
-- The properties of each opcode: tagged, may have an immediate, may be solicited, queue number.
local LIKE = { [0] = { 1, 1, 1, 0 }, { 0, 0, 0, 1 }, { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 1, 0, 0 },
	{ 0, 1, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 0, 2 }, [10] = { 0, 0, 0, 1 }, [11] = { 0, 0, 0, 3 },
	[12] = { 1, 1, 1, 0 }, [13] = { 0, 0, 0, 2 }, [14] = { 0, 0, 0, 2 } }
local RD_KINDS = { [0] = "data", "ack", "open", "grant", "reset", "refuse" }
-- RFC 5040 section 4.8, RFC 5041 section 7: layer, error type, error code.
local FAULTS = { [0x0102] = "access rights violation", [0x0205] = "invalid RDMAP version",
	[0x0206] = "unexpected opcode", [0x1100] = "invalid STag", [0x1101] = "base or bounds violation",
	[0x1103] = "tagged offset wrap", [0x1104] = "invalid DDP version (tagged)", [0x1201] = "invalid queue number",
	[0x1202] = "no buffer available", [0x1204] = "invalid message offset",
	[0x1205] = "message too long for the buffer", [0x1206] = "invalid DDP version (untagged)" }

local F = {}
local function field(name, make, title, ...)
	F[name] = make("diwarp." .. name, title, ...)
end
field("tagged", ProtoField.uint8, "Tagged", base.DEC, nil, 0x80)
field("last", ProtoField.uint8, "Last segment", base.DEC, nil, 0x40)
field("reserved", ProtoField.uint8, "Reserved", base.HEX, nil, 0x3c)
field("dv", ProtoField.uint8, "DDP version", base.DEC, nil, 0x03)
field("rv", ProtoField.uint8, "RDMAP version", base.DEC, nil, 0xc0)
field("immediate", ProtoField.uint8, "Immediate data follows", base.DEC, nil, 0x20)
field("solicited", ProtoField.uint8, "Solicited", base.DEC, nil, 0x10)
field("opcode", ProtoField.uint8, "Opcode", base.DEC, OPS, 0x0f)
field("op", ProtoField.string, "Operation")
field("inv_stag", ProtoField.uint32, "Invalidate STag", base.HEX)
field("qn", ProtoField.uint32, "Queue number", base.DEC)
field("stag", ProtoField.uint32, "STag", base.HEX)
field("to", ProtoField.uint64, "Tagged offset", base.HEX)
field("msn", ProtoField.uint32, "MSN", base.DEC)
field("mo", ProtoField.uint32, "Message offset", base.DEC)
field("qkey", ProtoField.uint32, "Q_Key", base.HEX)
field("epoch", ProtoField.uint16, "Epoch", base.HEX)
field("length", ProtoField.uint32, "Message length", base.DEC)
field("imm", ProtoField.uint32, "Immediate data", base.HEX)
field("payload", ProtoField.uint32, "Payload octets", base.DEC)
field("data", ProtoField.bytes, "Payload")
field("sink_stag", ProtoField.uint32, "Data sink STag", base.HEX)
field("sink_to", ProtoField.uint64, "Data sink tagged offset", base.HEX)
field("read_length", ProtoField.uint32, "Read message size", base.DEC)
field("source_stag", ProtoField.uint32, "Data source STag", base.HEX)
field("source_to", ProtoField.uint64, "Data source tagged offset", base.HEX)
field("flow_number", ProtoField.uint32, "Number of the question", base.DEC)
field("flow_window", ProtoField.uint32, "Window", base.DEC)
field("validation", ProtoField.string, "Validation")
field("doubted_op", ProtoField.string, "In doubt: operation")
field("doubted_tagged", ProtoField.uint8, "In doubt: tagged", base.DEC, nil, 0x80)
field("doubted_opcode", ProtoField.uint8, "In doubt: opcode", base.DEC, OPS, 0x0f)
field("doubted_epoch", ProtoField.uint16, "In doubt: epoch", base.HEX)
field("doubted_msn", ProtoField.uint32, "In doubt: MSN", base.DEC)
field("token", ProtoField.uint64, "Token", base.HEX)
field("error", ProtoField.uint16, "Error", base.HEX, FAULTS)
field("error_flags", ProtoField.uint8, "M, D, R", base.HEX)
field("error_seg_len", ProtoField.uint16, "DDP segment length", base.DEC)
field("quote", ProtoField.bytes, "Quotation")
field("quoted_tagged", ProtoField.uint8, "Quoted: tagged", base.DEC, nil, 0x80)
field("quoted_msn", ProtoField.uint32, "Quoted: MSN", base.DEC)
field("rd_kind", ProtoField.string, "RD kind")
field("rd_ask", ProtoField.uint8, "RD asks for an acknowledgement", base.DEC, nil, 0x80)
field("rd_tag", ProtoField.uint32, "RD tag", base.HEX)
field("rd_number", ProtoField.uint32, "RD number", base.DEC)
field("rd_ack", ProtoField.uint32, "RD acknowledged before", base.DEC)
field("rd_window", ProtoField.uint16, "RD window, or fault", base.DEC)
field("rd_own_tag", ProtoField.uint32, "RD sender's tag", base.HEX)
field("rd_own_epoch", ProtoField.uint32, "RD sender's epoch", base.HEX)
field("rd_first", ProtoField.uint32, "RD first number", base.DEC)
field("crc", ProtoField.uint32, "CRC-32", base.HEX)
field("crc_good", ProtoField.uint8, "CRC is good", base.DEC)
field("fault", ProtoField.string, "Fault")
local list = {}
for _, f in pairs(F) do list[#list + 1] = f end
p.fields = list
local bad = ProtoExpert.new("diwarp.bad", "Faulty segment", expert.group.CHECKSUM, expert.severity.ERROR)
p.experts = { bad }

-- ---- CRC-32, reflected, polynomial 0xEDB88320 ----

local b = bit32 or bit
local bxor = b and function(x, y) return b.bxor(x, y) % 4294967296 end or
	load("return function(x, y) return x ~ y end")()
local CRC = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do
		c = c % 2 == 1 and bxor((c - 1) / 2, 0xedb88320) or c / 2
		c = math.floor(c)
	end
	CRC[i] = c
end
local RESIDUE = 0x2144df1c           -- CRC of a good datagram including its CRC field

-- The CRC of S, and the length of the shortest beginning of S that ends in a good CRC (nil: none).
local function crc32(s, first)
	local c, at = 0xffffffff, nil
	for i = 1, #s do
		c = bxor(CRC[bxor(c % 256, s:byte(i))], math.floor(c / 256))
		if first and not at and i >= 32 and bxor(c, 0xffffffff) == RESIDUE then at = i end
	end
	return bxor(c, 0xffffffff), at
end

-- The length of TVB's first segment, and whether its CRC is good.
local function first_segment(tvb)
	if tvb:len() < 6 or tvb:len() < tvb:reported_len() then return tvb:len(), false end
	local ours = tvb(0, 1):uint() % 64 == 1 and math.floor(tvb(1, 1):uint() / 64) == 1 or tvb(0, 1):uint() % 4 == 2
	local all, at = crc32(tvb:raw(0, tvb:len()), ours)
	if all == RESIDUE then return tvb:len(), true end
	return at or tvb:len(), at ~= nil
end

-- ---- A segment ----

local function header_fault(h)
	local like, e = LIKE[h.opcode], h.mo + h.n
	local inv = h.opcode == 4 or h.opcode == 6
	if h.c0 % 64 ~= 1 or math.floor(h.c1 / 64) ~= 1 or (h.inv_stag ~= 0 and not inv) then return "rx_version" end
	if e > h.length or (h.last == 1) ~= (e == h.length) or (h.n == 0 and h.length > 0) then
		return "rx_malformed"
	end
	if not like or like[1] ~= h.tagged or (not h.rd and (h.opcode == 10 or h.opcode == 11 or inv)) then
		return "rx_opcode"
	end
	if h.qn ~= like[4] then return "rx_qn" end
	if h.imm > like[2] or h.solicited > like[3] then return "rx_version" end
	if (h.opcode == 1 and h.n ~= 28) or (h.opcode == 7 and h.n < 8) or (h.opcode == 13 and h.n ~= 8)
		or (h.opcode == 14 and (h.n ~= 16 or h.bad_validation)) then return "rx_malformed" end
end

local function body(t, tvb, h, at)
	if h.opcode == 1 and h.n == 28 then
		t:add(F.sink_stag, tvb(at, 4))
		t:add(F.sink_to, tvb(at + 4, 8))
		t:add(F.read_length, tvb(at + 12, 4))
		t:add(F.source_stag, tvb(at + 16, 4))
		t:add(F.source_to, tvb(at + 20, 8))
	elseif h.opcode == 13 and h.n == 8 then
		t:add(F.flow_number, tvb(at, 4))
		t:add(F.flow_window, tvb(at + 4, 4))
	elseif h.opcode == 14 and h.n == 16 then
		t:add(F.validation, tvb(at, 1), tvb(at, 1):uint() == 1 and "challenge" or "proof")
		t:add(F.doubted_op, tvb(at + 1, 1), OPS[tvb(at + 1, 1):uint() % 16] or "unknown")
		t:add(F.doubted_tagged, tvb(at + 1, 1))
		t:add(F.doubted_opcode, tvb(at + 1, 1))
		t:add(F.doubted_epoch, tvb(at + 2, 2))
		t:add(F.doubted_msn, tvb(at + 4, 4))
		t:add(F.token, tvb(at + 8, 8))
	elseif h.opcode == 7 and h.n >= 6 then
		t:add(F.error, tvb(at, 2))
		t:add(F.error_flags, tvb(at + 2, 1))
		t:add(F.error_seg_len, tvb(at + 4, 2))
		if h.n == 6 then return end
		local quote = at + 6
		local msn = quote + (tvb(quote, 1):uint() >= 128 and 20 or 10)
		t:add(F.quote, tvb(quote, h.n - 6))
		if msn + 4 <= at + h.n then
			t:add(F.quoted_tagged, tvb(quote, 1))
			t:add(F.quoted_msn, tvb(msn, 4))
		end
	elseif h.n > 0 then
		t:add(F.data, tvb(at, h.n))
	end
end

local function fields(t, tvb, h)
	local at
	t:add(F.tagged, tvb(0, 1))
	t:add(F.last, tvb(0, 1))
	t:add(F.reserved, tvb(0, 1))
	t:add(F.dv, tvb(0, 1))
	t:add(F.rv, tvb(1, 1))
	t:add(F.immediate, tvb(1, 1))
	t:add(F.solicited, tvb(1, 1))
	t:add(F.opcode, tvb(1, 1))
	t:add(F.op, tvb(1, 1), OPS[h.opcode] or "unknown")
	if h.tagged == 1 then
		t:add(F.stag, tvb(2, 4))
		t:add(F.to, tvb(6, 8))
		at = 14
	else
		t:add(F.inv_stag, tvb(2, 4))
		t:add(F.qn, tvb(6, 4))
		t:add(F.msn, tvb(10, 4))
		t:add(F.mo, tvb(14, 4))
		at = 18
	end
	t:add(F.qkey, tvb(at, 4))
	t:add(F.epoch, tvb(at + 4, 2))
	if h.tagged == 1 then
		t:add(F.msn, tvb(20, 4))
		t:add(F.mo, tvb(24, 4))
	end
	t:add(F.length, tvb(h.len - 4 - h.imm * 4, 4))
	if h.imm == 1 then t:add(F.imm, tvb(h.len - 4, 4)) end
end

-- The header of a reliable datagram: its length (nil: malformed), whether a segment follows, and a description.
local function rd_header(t, tvb)
	local kind, flags = math.floor(tvb(0, 1):uint() / 16), tvb(1, 1):uint()
	local news = math.floor(flags / 16) % 2 == 1 or kind == 2 or kind == 3
	local len = 24 + (news and 12 or 0)
	if math.floor(tvb(0, 1):uint() / 4) % 4 ~= 0 or not RD_KINDS[kind] or flags % 16 ~= 0
		or tvb:len() - 4 < len + (kind == 0 and 1 or 0) then return nil end
	t:add(F.rd_kind, tvb(0, 1), RD_KINDS[kind])
	t:add(F.rd_ask, tvb(1, 1))
	t:add(F.rd_tag, tvb(4, 4))
	t:add(F.rd_number, tvb(8, 4))
	local info = string.format("rd-%s %.0f", RD_KINDS[kind], tvb(8, 4):uint())
	if math.floor(flags / 64) % 2 == 1 then
		t:add(F.rd_ack, tvb(12, 4))
		if RD_KINDS[kind] ~= "grant" then t:add(F.rd_window, tvb(2, 2)) end
		info = info .. string.format(" ack %.0f", tvb(12, 4):uint())
	end
	if news then
		t:add(F.rd_own_tag, tvb(24, 4))
		t:add(F.rd_own_epoch, tvb(28, 4))
		t:add(F.rd_first, tvb(32, 4))
	end
	return len, kind == 0, info
end

local function segment(tvb, tree, good)
	local t = tree:add(p, tvb())
	if tvb:len() < 6 then
		t:add(F.crc_good, 0):set_generated()
		t:add(F.fault, "rx_short"):set_generated()
		return "short"
	end
	local rd = tvb(0, 1):uint() % 4 == 2
	if rd then
		local len, data, info = rd_header(t, tvb)
		if not len or not data then
			t:add_le(F.crc, tvb(tvb:len() - 4, 4))
			t:add(F.crc_good, good and 1 or 0):set_generated()
			if not len then t:add(F.fault, "rd_malformed"):set_generated() end
			t:append_text(", " .. (info or "rd_malformed"))
			return info or "rd_malformed"
		end
		tvb = tvb(len):tvb()
		if tvb:len() < 6 then
			t:add_le(F.crc, tvb(tvb:len() - 4, 4))
			t:add(F.crc_good, good and 1 or 0):set_generated()
			t:add(F.fault, "rx_malformed"):set_generated()
			return info
		end
	end
	local h = { rd = rd, c0 = tvb(0, 1):uint(), c1 = tvb(1, 1):uint() }
	h.tagged = h.c0 >= 128 and 1 or 0
	h.last = h.c0 % 128 >= 64 and 1 or 0
	h.imm = h.c1 % 64 >= 32 and 1 or 0
	h.solicited = h.c1 % 32 >= 16 and 1 or 0
	h.opcode = h.c1 % 16
	h.len = (h.tagged == 1 and 32 or 28) + h.imm * 4
	h.n = tvb:len() - 4 - h.len
	local fault, info = nil, "too short for its header"
	if h.n < 0 then
		fault = "rx_malformed"
	else
		local tagged = h.tagged == 1
		h.msn = tvb(tagged and 20 or 10, 4):uint()
		h.mo = tvb(tagged and 24 or 14, 4):uint()
		h.length = tvb(h.len - 4 - h.imm * 4, 4):uint()
		h.inv_stag = tagged and 0 or tvb(2, 4):uint()
		h.qn = tagged and 0 or tvb(6, 4):uint()
		if h.opcode == 14 and h.n == 16 then
			local kind, what = tvb(h.len, 1):uint(), tvb(h.len + 1, 1):uint()
			h.bad_validation = kind < 1 or kind > 2 or math.floor(what / 16) % 8 ~= 0
		end
		fault = header_fault(h)
		fields(t, tvb, h)
		t:add(F.payload, h.n):set_generated()
		if good then body(t, tvb, h, h.len) end
		info = string.format("%s msn %.0f mo %.0f+%d of %.0f", OPS[h.opcode] or "unknown", h.msn, h.mo, h.n,
			h.length)
	end
	local c = t:add_le(F.crc, tvb(tvb:len() - 4, 4))
	t:add(F.crc_good, good and 1 or 0):set_generated()
	if not good then
		c:add_proto_expert_info(bad, "CRC is bad")
		info = info .. " CRC BAD"
	end
	if fault then
		t:add(F.fault, fault):set_generated():add_proto_expert_info(bad, fault)
		info = info .. " FAULT " .. fault
	end
	t:append_text(", " .. info)
	return info
end

-- ---- Datagrams ----

local function dissect(tvb, pinfo, tree, len, good)
	pinfo.cols.protocol = "diwarp"
	local info, at = {}, 0
	repeat
		local n = math.min(len, tvb:len() - at)
		local one = tvb(at, n):tvb()
		if at > 0 then good = n >= 6 and crc32(one:raw(0, n)) == RESIDUE end
		info[#info + 1] = segment(one, tree, good)
		at = at + n
	until at >= tvb:len()
	pinfo.cols.info = table.concat(info, "; ", 1, math.min(#info, 3)) .. (#info > 3 and "; ..." or "")
	return tvb:len()
end

local function heuristic(tvb, pinfo, tree)
	local len, good = first_segment(tvb)
	if not good then return false end
	pinfo.conversation = p
	dissect(tvb, pinfo, tree, len, good)
	return true
end

-- RoCEv2 has the default port of diw.
local ports = DissectorTable.get("udp.port")
local roce = ports:get_dissector(4791)
local known = {}

-- Lets the RoCEv2 dissector show a datagram. Errors of that dissector are ignored.
local function hand_over(tvb, pinfo, tree)
	local done, n = pcall(function() return roce:call(tvb, pinfo, tree) end)
	return done and n or tvb:len()
end

-- Dissects a datagram of a known conversation, or of port 4791.
function p.dissector(tvb, pinfo, tree)
	local len, good = first_segment(tvb)
	local a, z = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
	local pair = a < z and a .. " " .. z or z .. " " .. a
	if good then known[pair] = true end
	if not good and (pinfo.src_port == 4791 or pinfo.dst_port == 4791) and not known[pair] then
		return roce and hand_over(tvb, pinfo, tree) or 0
	end
	if tvb:len() < tvb:reported_len() then
		pinfo.cols.protocol = "diwarp"
		pinfo.cols.info = "cut short by the capture"
		tree:add(p, tvb()):append_text(", cut short by the capture")
		return tvb:len()
	end
	return dissect(tvb, pinfo, tree, len, good)
end
function p.init() known = {} end

p:register_heuristic("udp", heuristic)
ports:add(4791, p)
