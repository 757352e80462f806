// The pages but the first one, which is there sooner.

export {tree} from './tree.js';
export {coordination} from './coordination.js';
export {sessions} from './sessions.js';
export {live} from './live.js';
export {search} from './search.js';
export {history} from './history.js';
export {members} from './members.js';
export {limits} from './limits.js';
export {configuration} from './configuration.js';
export {audit} from './audit.js';
export {backups} from './backups.js';
export {restore} from './restore.js';
export {done} from './acts.js';
