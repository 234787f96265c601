CREATE TABLE accounted (
	device VARCHAR(64) NOT NULL, 
	stream VARCHAR(64) NOT NULL, 
	first BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	PRIMARY KEY (device, stream, first)
);
CREATE TABLE aggregate (
	id BIGINT NOT NULL, 
	topic VARCHAR(400) NOT NULL, 
	payload BYTEA NOT NULL, 
	sent BOOLEAN NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE batch (
	device VARCHAR(64) NOT NULL, 
	stream VARCHAR(64) NOT NULL, 
	first BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	noise BIGINT NOT NULL, 
	states BYTEA NOT NULL, 
	PRIMARY KEY (device, stream, first)
);
CREATE INDEX batch_of_stream ON batch (stream, first);
CREATE TABLE belief (
	stream VARCHAR(64) NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	q_low FLOAT(53) NOT NULL, 
	q_high FLOAT(53) NOT NULL, 
	r_low FLOAT(53) NOT NULL, 
	r_high FLOAT(53) NOT NULL, 
	PRIMARY KEY (stream, device)
);
CREATE TABLE belief_k (
	stream VARCHAR(64) NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	chains TEXT NOT NULL, 
	PRIMARY KEY (stream, device)
);
CREATE TABLE closed (
	stream VARCHAR(64) NOT NULL, 
	"window" VARCHAR(64) NOT NULL, 
	scope VARCHAR(64) NOT NULL, 
	through BIGINT NOT NULL, 
	PRIMARY KEY (stream, "window", scope)
);
CREATE TABLE collected (
	stream VARCHAR(64) NOT NULL, 
	"window" VARCHAR(64) NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	first BIGINT NOT NULL, 
	payload BYTEA NOT NULL, 
	PRIMARY KEY (stream, "window", device, first)
);
CREATE TABLE device_tilt (
	stream VARCHAR(64) NOT NULL, 
	policy BIGINT NOT NULL, 
	tilt BIGINT NOT NULL, 
	PRIMARY KEY (stream, policy)
);
CREATE TABLE extent (
	stream VARCHAR(64) NOT NULL, 
	noise BIGINT NOT NULL, 
	first BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	PRIMARY KEY (stream, noise)
);
CREATE TABLE learning (
	stream VARCHAR(64) NOT NULL, 
	windows BIGINT NOT NULL, 
	lasting TEXT NOT NULL, 
	hidden FLOAT(53) NOT NULL, 
	contradictions BIGINT NOT NULL, 
	PRIMARY KEY (stream)
);
CREATE TABLE ledger (
	id BIGSERIAL NOT NULL, 
	stream VARCHAR(64) NOT NULL, 
	"window" VARCHAR(64) NOT NULL, 
	scope VARCHAR(64) DEFAULT 'cohort' NOT NULL, 
	audience VARCHAR(16) NOT NULL, 
	first BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	tilt BIGINT NOT NULL, 
	noise BIGINT NOT NULL, 
	noise_digest VARCHAR(32) NOT NULL, 
	why VARCHAR(64) NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX ledger_of_stream ON ledger (stream, id);
CREATE TABLE pending (
	stream VARCHAR(64) NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	noise BIGINT NOT NULL, 
	ticks BIGINT NOT NULL, 
	starts TEXT NOT NULL, 
	groups TEXT NOT NULL, 
	tilt BIGINT NOT NULL, 
	PRIMARY KEY (stream, device, noise)
);
CREATE TABLE policy (
	version BIGSERIAL NOT NULL, 
	payload BYTEA NOT NULL, 
	PRIMARY KEY (version)
);
CREATE TABLE quarantine (
	device VARCHAR(64) NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	strikes BIGINT NOT NULL, 
	until FLOAT(53) NOT NULL, 
	PRIMARY KEY (device)
);
CREATE TABLE setting (
	stream VARCHAR(64) NOT NULL, 
	version BIGINT NOT NULL, 
	policy BIGINT NOT NULL, 
	device VARCHAR(64), 
	issued BIGINT DEFAULT '0' NOT NULL, 
	noise TEXT NOT NULL, 
	payload BYTEA NOT NULL, 
	PRIMARY KEY (stream, version)
);
CREATE TABLE statistic (
	stream VARCHAR(64) NOT NULL, 
	block BIGINT NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	noise BIGINT NOT NULL, 
	ticks BIGINT NOT NULL, 
	ones BIGINT NOT NULL, 
	starts_0 BIGINT NOT NULL, 
	starts_1 BIGINT NOT NULL, 
	starts_2 BIGINT NOT NULL, 
	starts_3 BIGINT NOT NULL, 
	changes_0 BIGINT NOT NULL, 
	changes_1 BIGINT NOT NULL, 
	changes_2 BIGINT NOT NULL, 
	changes_3 BIGINT NOT NULL, 
	variance FLOAT(53) NOT NULL, 
	PRIMARY KEY (stream, block, device, noise)
);
CREATE TABLE statistic_k (
	stream VARCHAR(64) NOT NULL, 
	block BIGINT NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	noise BIGINT NOT NULL, 
	ticks BIGINT NOT NULL, 
	starts TEXT NOT NULL, 
	counts TEXT NOT NULL, 
	pairs TEXT NOT NULL, 
	variance FLOAT(53) NOT NULL, 
	PRIMARY KEY (stream, block, device, noise)
);
CREATE TABLE tally (
	device VARCHAR(64) NOT NULL, 
	stream VARCHAR(64) NOT NULL, 
	counted BIGINT NOT NULL, 
	late BIGINT NOT NULL, 
	PRIMARY KEY (device, stream)
);
CREATE TABLE release (
	entry BIGINT NOT NULL, 
	topic VARCHAR(400) NOT NULL, 
	payload BYTEA NOT NULL, 
	sent BOOLEAN NOT NULL, 
	PRIMARY KEY (entry, topic), 
	FOREIGN KEY(entry) REFERENCES ledger (id)
);
