// SPDX-License-Identifier: BSD-2-Clause
// PORT: sends datagrams back. PORT COUNT: asks COUNT times, with up to 1,400 bytes, and expects the same back.
'use strict';
const port = Number(process.argv[2]), count = Number(process.argv[3] || 0);
const s = require('dgram').createSocket('udp4');
let number = 0, asked;

function ask() {
	asked = Buffer.alloc(1 + (number * 7919) % 1400, number % 256);
	s.send(asked, port, '127.0.0.1');
}
s.on('message', (data, peer) => {
	if (!count) {
		s.send(data, peer.port, peer.address);
	} else if (!data.equals(asked)) {
		console.log('message ' + number + ' is another');
		process.exit(1);
	} else if (++number === count) {
		process.exit(0);
	} else {
		ask();
	}
});
// The delay: the client has looked for messages before it sends the first.
s.bind(count ? 0 : port, '127.0.0.1', () => { if (count) setTimeout(ask, 100); });
