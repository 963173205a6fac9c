// SPDX-License-Identifier: BSD-2-Clause
// net PORT: sends back the bytes of each connection. net PORT COUNT: four connections at once send COUNT pieces each,
// of up to 60,000 bytes, and expect the same back, in any pieces.
// greets: as net, but the server begins each connection with a line.
// http PORT: answers each POST with its body. http PORT COUNT: asks COUNT times, over connections that are kept.
'use strict';
const net = require('net'), http = require('http');
const [kind, port, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] || 0)];

function piece(number) {
	return Buffer.alloc(1 + (number * 7919) % 60000, 'piece ' + number + ', ');
}
function failed(what) {
	console.log(what);
	process.exit(1);
}

const GREETING = 'you are welcome\n';
function stream(first, greeting) {
	const s = net.connect(port, '127.0.0.1');
	let number = 0, asked = Buffer.from(greeting), got = [], left = greeting.length;

	function ask() {
		if (number === count)
			return s.end();
		asked = piece(first + number++);
		left = asked.length;
		got = [];
		s.write(asked);
	}
	if (!greeting)
		s.on('connect', ask);
	s.on('error', failed);
	s.on('close', () => { if (number !== count || left) failed('a connection ended after ' + number); });
	s.on('data', (data) => {
		got.push(data);
		left -= data.length;
		if (left > 0)
			return;
		if (left < 0 || !Buffer.concat(got).equals(asked))
			failed('piece ' + number + ' is another');
		ask();
	});
}

function request(number, agent) {
	const body = piece(number), got = [];
	const r = http.request({ host: '127.0.0.1', port, method: 'POST', agent }, (answer) => {
		answer.on('data', (data) => got.push(data));
		answer.on('end', () => {
			if (answer.statusCode !== 200 || !Buffer.concat(got).equals(body))
				failed('answer ' + number + ' is another');
			if (number + 4 < count)
				request(number + 4, agent);
		});
	});
	r.on('error', failed);
	r.end(body);
}

if (kind === 'net' && !count)
	net.createServer((s) => s.on('error', () => s.destroy()).pipe(s)).listen(port, '127.0.0.1');
else if (kind === 'greets' && !count)
	net.createServer((s) => {
		s.write(GREETING);
		s.on('error', () => s.destroy()).pipe(s);
	}).listen(port, '127.0.0.1');
else if (kind === 'http' && !count)
	http.createServer((q, answer) => q.pipe(answer)).listen(port, '127.0.0.1');
else if (kind === 'net')
	for (let i = 0; i < 4; i++)
		stream(i * count, '');
else if (kind === 'greets')
	for (let i = 0; i < 4; i++)
		stream(i * count, GREETING);
else
	for (let i = 0, agent = new http.Agent({ keepAlive: true, maxSockets: 4 }); i < 4; i++)
		request(i, agent);
